"""Icons are drawn as heroicons draws them, without its reading all of its archive for each."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from heroicons.templatetags.heroicons import heroicon_micro, heroicon_mini, heroicon_outline

from wfdash.web.pages.ui.fragments import draw_icon


def parts(svg: str) -> list[tuple[str, dict[str, str]]]:
    return [(part.tag, part.attrib) for part in ElementTree.fromstring(svg).iter()]


@pytest.mark.parametrize(("size", "theirs"), [(16, heroicon_micro), (20, heroicon_mini), (24, heroicon_outline)])
def test_an_icon_of_each_size_is_that_of_heroicons_hidden_from_screen_readers(size: int, theirs) -> None:
    drawn = draw_icon("shield-check", size, (("class", "graph-icon quiet"), ("x", "3.5")))
    assert parts(drawn) == parts(
        theirs("shield-check", size=size, aria_hidden="true", x="3.5", **{"class": "graph-icon quiet"})
    )
    assert 'aria-hidden="true"' in drawn
    assert "xmlns" not in drawn


def test_attributes_are_escaped() -> None:
    assert 'class="&quot;&gt;&lt;b"' in draw_icon("clock", 16, (("class", '"><b'),))


def test_an_icon_that_does_not_exist_is_named() -> None:
    with pytest.raises(KeyError, match=r"micro/no-such\.svg"):
        draw_icon("no-such", 16)
