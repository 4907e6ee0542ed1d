"""Any value is shown, whatever it is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wfdash.domain.labels import is_deceiving, visible
from wfdash.notifications.rendering import engine
from wfdash.values.display import to_display
from wfdash.web.pages.ui.json_value import MAX_DEPTH, describe, pretty, render_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@given(JSON)
def test_every_value_is_shown_with_its_tags_closed(value: Any) -> None:
    html = render_value(value)
    assert html.count("<details") == html.count("</details>")
    assert html.count("<ul") == html.count("</ul>")


def test_values_that_are_no_json_show_type_size_and_repr() -> None:
    assert "Decimal" in render_value(Decimal("1.5"))
    assert "bytes, 4 bytes" in render_value(b"abcd")
    assert "cannot be shown: RuntimeError" in render_value({"x": Hostile()})


def test_text_is_escaped_and_long_text_is_folded() -> None:
    html = render_value({"<b>": "<script>" + "x" * 1000})
    assert "<script>" not in html
    assert "1,008 characters" in html


def test_hidden_characters_are_made_visible() -> None:
    assert visible("a\u202eb\x00c\u200bd\x7f") == "a[U+202E]b␀c[U+200B]d␡"
    assert visible("line\nand\ttab") == "line\nand\ttab"
    assert is_deceiving("\u2066x")
    assert not is_deceiving("plain ünïcode 漢字 🙂")


def test_lone_surrogates_do_not_break_the_page() -> None:
    render_value({"\ud800": "\udfff"}).encode()


def test_depth_and_size_are_bounded() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH * 3):
        deep = [deep]
    assert "1 item" in render_value(deep)
    wide = render_value([list(range(300))] * 300)
    assert "more</li>" in wide
    assert wide.count("<li>") < 4000


def test_a_value_is_described_in_one_line() -> None:
    assert [describe(v) for v in ({"a": 1}, [1, 2], "hi", True, None)] == ["1 field", "2 items", "“hi”", "true", "null"]


def test_the_tag_and_the_filters_never_fail() -> None:
    page = engine().from_string(
        "{% load wfdash %}{% value x %}{{ x|json_pretty }}{{ x|duration }}{{ x|bytes }}{{ x|markdown }}"
    )
    for value in (None, "", 1.5, {"a": [1]}, Decimal(1), {(1, 2): 3}):
        assert page.render({"x": value})


class Broken(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")


def test_values_that_break_when_looked_at_are_survived() -> None:
    for value in (Broken(a=1), [Broken(a=1)], {"x": Hostile()}, {Hostile(): 1}, 10**5000):
        html = render_value(value)
        assert html.count("<details") == html.count("</details>")
        pretty(value)


def test_what_stands_for_another_value_shows_type_size_and_repr() -> None:
    html = render_value({"array": {"$opaque": "ndarray<b>", "size": 3, "repr": "array(<script>)"}})
    assert '<span class="chip">ndarray&lt;b&gt;, 3 items</span> <code>array(&lt;script&gt;)</code>' in html
    assert "bytes, 4 bytes" in render_value(b"abcd")


@given(st.from_type(type).flatmap(st.from_type))
@settings(deadline=None)
def test_any_python_value_is_shown(value: Any) -> None:
    html = render_value(value) + render_value(to_display(value))
    assert html.count("<ul") == html.count("</ul>")
