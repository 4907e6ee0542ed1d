"""Text from workflows and comments cannot keep the server busy."""

from __future__ import annotations

import time

import pytest

from wfdash.web.pages.ui.markup import LEXERS, MAX_COLOURED, MAX_COLOURED_IN_ALL, TextCache, highlight, render_markdown

HOSTILE = ("\n", '\\"', "_", "&", " \n", "a.", "{", "@", "(", "<a ", "\r", "x=", "'''", "\u2028")


def seconds(act) -> float:
    """Return the processor time of this thread, which other processes do not lengthen."""
    began = time.thread_time()
    act()
    return time.thread_time() - began


@pytest.mark.parametrize("language", sorted({*LEXERS.values(), "java", "c", "cfengine3", "cpp", "diff"}))
def test_no_code_block_takes_long_to_colour(language: str):
    blocks = [(atom * 20_000)[:size] for atom in HOSTILE for size in (MAX_COLOURED, 20_000)]
    assert max(seconds(lambda block=block: highlight(block, language)) for block in blocks) < 2


def test_a_document_of_many_code_blocks_is_coloured_only_so_far():
    block = "```python\n" + "x = 1\n" * 500 + "```\n"
    html = render_markdown(block * 20)
    assert 0 < html.count('<span class="hl-n">x</span>') * len("x = 1\n") <= MAX_COLOURED_IN_ALL
    assert html.count("<pre") == html.count("</pre>") > 10


def test_code_in_a_comment_is_not_coloured():
    text = "```python\nx = 1\n```"
    assert "hl-" in render_markdown(text)
    assert "hl-" not in render_markdown(text, coloured=False)


@pytest.mark.parametrize("text", ["[[](" * 12_500, "|a|\n|-|\n" + "x\n" * 25_000])
def test_no_markdown_takes_long_and_a_second_look_takes_nothing(text: str):
    assert seconds(lambda: render_markdown(text)) < 10
    assert seconds(lambda: render_markdown(text)) < 0.05


def test_what_is_remembered_is_bounded_by_its_length():
    cache, rendered = TextCache(max_chars=100), []

    def render(source: str) -> str:
        return cache.get("way", source, lambda: rendered.append(source) or source * 10)

    for source in ("abcd", "efgh", "abcd", "ijkl", "abcd", "efgh"):
        assert render(source) == source * 10
    assert rendered == ["abcd", "efgh", "ijkl", "efgh"]
    assert cache.get("other way", "abcd", lambda: "else") == "else"


def test_a_text_longer_than_all_that_is_remembered_is_still_rendered():
    cache = TextCache(max_chars=5)
    assert [cache.get("way", "x", lambda: "y" * 10) for _ in range(2)] == ["y" * 10] * 2
