from __future__ import annotations

from pathlib import Path

import pytest

from wfdash import examples
from wfdash.examples.articles import SAMPLE, Draft, proofread, typeset


def test_long_sentences_are_pointed_at():
    remarks = proofread(f"Short one. {'word ' * 40}end.").splitlines()
    assert remarks == ["- 43 words, 1 min to read", "- Long sentence: word word word word word word word word ..."]


def test_the_sample_has_something_to_remark_on():
    assert "Long sentence: The third one is the hardest" in proofread(SAMPLE)


def test_untrusted_markup_comes_out_as_text():
    html = typeset(Draft(title="A & B", text="<script>x</script> [y](javascript:z)"), comments=[]).html
    assert html == "<h1>A &amp; B</h1>\n<p>&lt;script&gt;x&lt;/script&gt; [y](javascript:z)</p>\n"


def test_a_slug_is_safe_in_an_address_whatever_the_headline():
    assert typeset(Draft(title="Why? Because: 42!", text="x"), comments=[]).slug == "why-because-42"
    assert typeset(Draft(title="?!", text="x"), comments=[]).slug == "article"


@pytest.mark.parametrize("name", ["patch_review", "expense_batch", "publish_article", "parcel", "support_agent"])
def test_an_example_is_read_in_one_sitting(name: str):
    assert len((Path(examples.__file__).parent / f"{name}.py").read_text().splitlines()) < 100
