from __future__ import annotations

from pathlib import Path

import pytest

from wfdash import examples


@pytest.mark.parametrize("name", ["patch_review", "expense_batch", "publish_article", "parcel", "support_agent"])
def test_an_example_is_read_in_one_sitting(name: str):
    assert len((Path(examples.__file__).parent / f"{name}.py").read_text().splitlines()) < 100
