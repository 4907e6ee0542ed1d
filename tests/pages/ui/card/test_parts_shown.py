"""What a card shows: every kind of evidence, the proposal, the tool, the options; nothing hidden, nothing run."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.test_images import PNG
from tests.pages.controls import post_of
from tests.pages.markup import flat
from tests.pages.ui.test_markup import PAYLOADS
from wfdash.notifications.rendering import engine
from wfdash.questions.cards import prepare
from wfdash.questions.evidence import File, Image, JsonValue, Link, Table, Text
from wfdash.web.pages.ui import card as cards
from wfdash.web.pages.ui.markup import FIRST_LINES, block
from wfdash.workflow import Approval, Choice, Option, ToolCall

FOREIGN = {"b", "i", "script", "iframe", "style", "base", "meta", "math", "object"}
"""Tags that no template draws."""
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(PAYLOADS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.sampled_from(["kind", "title", "value", "rows", "columns", "name"]), inner)
    ),
    max_leaves=12,
)
KINDS = ["text", "markdown", "table", "json", "image", "pdf", "file", "link", "diff", "code", "film"]
PIECES = st.fixed_dictionaries({"kind": st.sampled_from(KINDS), "value": ANY_JSON}, optional={"title": ANY_JSON})
ANY_CARD = st.fixed_dictionaries(
    {},
    optional={
        "subject": ANY_JSON,
        "body": ANY_JSON,
        "proposal": ANY_JSON,
        "current": ANY_JSON,
        "evidence": st.lists(PIECES | ANY_JSON, max_size=4) | ANY_JSON,
        "consequence": st.dictionaries(st.sampled_from(["approve", "reject"]), ANY_JSON) | ANY_JSON,
        "risk": ANY_JSON,
        "undo": ANY_JSON,
        "context": ANY_JSON,
        "tool": ANY_JSON,
        "options": ANY_JSON,
        "multiple": ANY_JSON,
        "actions": st.lists(
            st.fixed_dictionaries({"name": st.text("ab<\"'é ", max_size=9), "label": ANY_JSON}), max_size=3
        ),
    },
)


class Seen(HTMLParser):
    """The tags of a page, their handlers, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in {"href", "src", "action"}}


def shown(card: dict[str, Any], schema: dict[str, Any] | None = None, url: str = "", **more: Any) -> str:
    drawn = cards.build(card, schema or {}, url=url, **more)
    return engine().from_string("{% load wfdash %}{% decision_card card %}").render({"card": drawn})


def harmless(html: str) -> None:
    """Assert that the page holds nothing but what the templates draw."""
    seen = Seen()
    seen.feed(html)
    assert not FOREIGN & seen.tags
    assert not {name for name in seen.attributes if name.startswith("on") or name == "style"}
    allowed = ("https://", "http://", "mailto:", "/", "#", "data:image/png", "data:image/jpeg")
    assert all(link.startswith(allowed) for link in seen.links), seen.links
    assert not {"\u202e", "\u200b", "\x00"} & set(html)


@settings(deadline=None)
@given(ANY_CARD)
def test_any_card_is_drawn_and_nothing_in_it_is_run(card: dict[str, Any]) -> None:
    harmless(shown(card, url="/requests/1/"))


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_part_lets_markup_through(payload: str) -> None:
    rows = [{payload: payload}]
    pieces: list[dict[str, Any]] = [{"kind": kind, "title": payload, "value": payload} for kind in KINDS]
    pieces += [{"kind": "table", "value": rows}, {"kind": "diff", "value": {"before": rows, "after": [payload]}}]
    pieces += [
        {"kind": "file", "name": payload, "value": base64.b64encode(payload.encode("utf-8", "replace")).decode()}
    ]
    pieces += [{"kind": "image", "alt": payload, "value": base64.b64encode(PNG).decode()}]
    parts = dict.fromkeys(("subject", "body", "risk", "undo"), payload) | {"evidence": pieces, "context": rows[0]}
    actions = [{"name": "approve", "label": payload, "style": "primary", "fields": [], "description": payload}]
    harmless(
        shown(
            {**parts, "proposal": rows[0], "actions": actions, "tool": {"name": payload, "flaws": [payload]}},
            url="/requests/1/",
        )
    )
    harmless(shown({**parts, "proposal": payload, "current": payload[::-1], "consequence": {"approve": payload}}))


def test_an_image_without_an_address_is_part_of_the_page() -> None:
    card = prepare(Approval(subject="x", evidence=[Image(data=PNG, alt="A dot")]), None).card
    assert 'src="data:image/png;base64,' in shown(card)
    assert '<a href="/f/evidence/0/"' in shown(card, page="/f/")


def test_an_image_is_one_by_its_content_alone() -> None:
    for data in (b"<svg onload=alert(1)>", b"GIF", b"<script>"):
        value = base64.b64encode(data).decode()
        html = shown({"evidence": [{"kind": "image", "value": value, "media_type": "image/png"}]})
        assert "<img" not in html


def test_a_text_file_has_a_preview_and_others_do_not() -> None:
    pieces = [File(name="a.txt", data=b"first <b>line</b>"), File(name="a.pdf", data=b"%PDF-1.7 text")]
    html = shown(prepare(Approval(subject="x", evidence=pieces), None).card, page="/f/")
    assert "first &lt;b&gt;line" in html
    assert html.count("Preview") == 1
    assert 'href="/f/evidence/1/" download="a.pdf"' in html


def test_a_link_says_where_it_leads_and_not_what_it_claims() -> None:
    link = Link(url="https://your-bank.example@b\u0430nk.example/login?x=1", title="your-bank.example")
    assert ">xn--bnk-6cd.example/login?x=1<" in shown(prepare(Approval(subject="x", evidence=[link]), None).card)


def test_the_fields_of_a_proposal_are_named() -> None:
    html = shown({"proposal": {"to": "jana", "body": "Dear Jana,\n\nbye", "tags": ["a"], "none": None}})
    assert "<dt>To</dt>" in html
    assert "Dear Jana,\n\nbye" in html
    assert "1 item" in html


def test_a_tool_call_is_approved_edited_or_answered() -> None:
    asking = prepare(ToolCall(tool="send", arguments={"to": "jana", "text": "hello"}), None)
    html = shown(asking.card, asking.schema, "/x/")
    assert '<p class="call-name"><code>send</code>' in flat(html)
    assert "Runs send with these arguments" in html
    changed = post_of(html, **{"_action": "edit", "edit:arguments.to": "tom"})
    reading = cards.read_answer(asking.schema, asking.card, changed)
    assert reading.value == {"action": "edit", "arguments": {"to": "tom", "text": "hello"}}
    told = post_of(html, **{"_action": "respond", "respond:response": "No need"})
    assert cards.read_answer(asking.schema, asking.card, told).value == {"action": "respond", "response": "No need"}
    silent = cards.read_answer(asking.schema, asking.card, post_of(html, _action="respond"))
    assert silent.errors == [{"loc": ["response"], "msg": "This field is required"}]


def test_arguments_that_do_not_fit_are_said_and_not_approved() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    asking = prepare(ToolCall(tool="send", arguments={"n": "x"}, parameters=schema), None)
    html = shown(asking.card, asking.schema, "/x/")
    assert "The arguments do not match the tool’s schema." in html
    assert "n: Must be a whole number" in html
    assert 'value="approve"' not in html


def test_options_are_ticked_with_what_speaks_for_them() -> None:
    options: list[str | Option] = [Option(name="n", label="North", description="1.2 M people"), "s"]
    asking = prepare(Choice(subject="Where?", options=options, multiple=True), None)
    html = shown(asking.card, asking.schema, "/x/")
    assert "1.2 M people" in html
    nothing = cards.read_answer(asking.schema, asking.card, post_of(html))
    assert "at least 1" in str(nothing.errors)
    assert "at least 1" in shown(asking.card, asking.schema, "/x/", reading=nothing)
    both = post_of(html)
    both.setlist("value", ["n", "s"])
    reading = cards.read_answer(asking.schema, asking.card, both)
    assert (reading.value, reading.errors) == (["n", "s"], [])
    assert shown(asking.card, asking.schema, "/x/", reading=reading).count(" checked") == 2


def test_what_an_action_leads_to_stands_by_its_button() -> None:
    asking = prepare(Approval(subject="x", consequence={"approve": "It is paid"}), None)
    html = shown(asking.card, asking.schema, "/x/")
    assert 'aria-describedby="says-1"' in html
    assert '<p class="says" id="says-1"><strong>Approve</strong>It is paid</p>' in flat(html)
    assert "says-2" in html


def test_options_that_are_described_can_be_compared_beside_the_dock() -> None:
    options: list[str | Option] = [
        Option(name="dhl", label="DHL", description="Two days"),
        Option(name="ups", label="UPS"),
    ]
    asking = prepare(Choice(subject="Which?", options=options), None)
    html = flat(shown(asking.card, asking.schema, "/x/"))
    assert "<dt>DHL</dt><dd>Two days</dd>" in html
    assert '<div class="dock">' in html
    assert "<h2>Options</h2>" in html
    long = prepare(Approval(subject="x", consequence={"approve": "Paid. " * 50}), None)
    assert "<h2>What happens next</h2>" in shown(long.card, long.schema, "/x/")
    many = prepare(Choice(subject="Which?", options=[*options, "a", "b", "c"]), None)
    html = flat(shown(many.card, many.schema, "/x/"))
    assert "<dt>DHL</dt>" not in html
    assert '<div class="dock many">' in html


def test_a_long_text_is_folded_and_a_short_one_is_not() -> None:
    long = block("\n".join(f"line {n}" for n in range(400)))
    assert long.first.count("\n") == FIRST_LINES - 1
    assert (long.first + long.rest).endswith("line 399")
    assert long.rest_says == "376 more lines"
    assert block("a\n" * 20).rest == ""
    endless = block("so: " + "x" * 5000)
    assert (len(endless.first), endless.rest_says) == (164, "4,840 more characters")
    assert block("x " * 60_000).left_out == 20_000


def test_cells_say_what_they_hold() -> None:
    rows = [{"a": True, "b": None, "c": [1, 2], "d": {"x": 1}, "e": "\u202ee", "f": object()}]
    pieces = [Table(rows=rows), Text(value="\u200b"), JsonValue(value=b"\xff")]
    html = shown(prepare(Approval(subject="x", evidence=pieces), None).card)
    for text in ("yes", "—", "1, 2", "1 field", "[U+202E]e", "&lt;object object", "[U+200B]", "bytes, 1 bytes"):
        assert text in html


def test_times_in_the_context_are_drawn_as_times_and_other_texts_as_they_are() -> None:
    context = {"begun": "2026-11-22T10:00:56.827456+00:00", "day": "2026-11-22", "code": "T-800"}
    part = cards.build({"subject": "?", "context": context}, {}).context
    drawn = engine().from_string('{% include "components/parts/facts.html" %}').render({"part": part})
    assert '<time datetime="2026-11-22T10:00:56.827456+00:00"' in drawn
    assert "<dd>2026-11-22</dd>" in drawn
    assert "<dd>T-800</dd>" in drawn


def test_a_table_of_some_length_counts_its_rows_and_can_be_filtered():
    rows = [{"name": f"n{n}"} for n in range(300)]
    html = shown({"evidence": [Table(rows=rows).shown()]})
    assert 'data-row-count="300">300 rows<' in flat(html)
    assert "data-sortable" in html
    assert "data-filter-rows" not in shown({"evidence": [Table(rows=rows[:3]).shown()]})
    assert "data-sortable" not in shown({"evidence": [Table(rows=[["a"], ["b"]]).shown()]})
