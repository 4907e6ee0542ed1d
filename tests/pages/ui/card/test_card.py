"""The decision card: what is shown, and how an answer is read."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from pydantic import BaseModel

from tests.pages.controls import post_of, read_controls
from tests.pages.markup import flat
from wfdash.notifications.rendering import engine
from wfdash.questions.cards import Approval, Choice, Question, prepare
from wfdash.web.pages.ui import card as cards


class Payment(BaseModel):
    payee: str
    amount: float
    lines: list[str] = []


PAYMENT = {"payee": "Acme", "amount": 12.5, "lines": ["a"]}
ASK = prepare(Approval(subject="Pay?", proposal=PAYMENT, edit=Payment, require_reason=True), None)


def render(card: cards.CardView) -> str:
    return (
        engine().from_string("{% load wfdash %}{% decision_card card %}").render({"card": card, "csrf_token": "t0ken"})
    )


def shown(card: dict[str, Any], schema: dict[str, Any] | None = None, url: str = "/requests/1/") -> str:
    return render(cards.build(card, schema or {}, url=url))


def read(post: str | QueryDict, ask: Any = ASK) -> cards.PostedAnswer:
    return cards.read_answer(ask.schema, ask.card, QueryDict(post) if isinstance(post, str) else post)


def test_approving_takes_one_button() -> None:
    html = shown(ASK.card, ASK.schema)
    assert '<button class="button primary" name="_action" value="approve"' in flat(html)
    reading = read(post_of(html, _action="approve"))
    assert reading.value == {"action": "approve"}
    assert reading.errors == []


def test_a_required_field_belongs_to_its_action() -> None:
    html = shown(ASK.card, ASK.schema)
    reading = read(post_of(html, _action="reject"))
    assert reading.errors == [{"loc": ["reason"], "msg": "This field is required"}]
    again = render(cards.build(ASK.card, ASK.schema, url="/x/", reading=reading))
    assert '<details class="action" open>' in again
    assert 'href="#field-reject%3Areason"' in again
    done = read(post_of(html, **{"_action": "reject", "reject:reason": "Too dear"}))
    assert done.value == {"action": "reject", "reason": "Too dear"}
    assert done.errors == []


def test_an_optional_reason_leaves_rejecting_one_click() -> None:
    ask = prepare(Approval(subject="Pay?", proposal=1), None)
    html = shown(ask.card, ask.schema)
    assert 'name="_action" value="reject" data-key-twice data-key="r"' in flat(html)
    assert read(post_of(html, _action="reject"), ask).value == {"action": "reject", "reason": None}


def test_editing_begins_with_the_proposal() -> None:
    html = shown(ASK.card, ASK.schema)
    reading = read(post_of(html, **{"_action": "edit", "edit:edited.amount": "99"}))
    assert reading.value == {"action": "edit", "edited": {**PAYMENT, "amount": 99}}
    assert reading.errors == []


def test_errors_in_an_edit_keep_what_was_typed() -> None:
    html = shown(ASK.card, ASK.schema)
    reading = read(post_of(html, **{"_action": "edit", "edit:edited.amount": "abc"}))
    assert reading.errors == [{"loc": ["edited", "amount"], "msg": "Must be a number, such as 12.5"}]
    again = render(cards.build(ASK.card, ASK.schema, url="/x/", reading=reading))
    assert 'value="abc"' in again
    assert again.count("aria-invalid") == 1


def test_a_row_button_draws_the_card_again() -> None:
    html = shown(ASK.card, ASK.schema)
    reading = read(post_of(html, **{"_add": "edit:edited.lines", "reject:reason": "so far"}))
    assert reading.editing
    assert reading.errors == []
    again = render(cards.build(ASK.card, ASK.schema, url="/x/", reading=reading))
    assert 'name="edit:edited.lines.1"' in again
    assert "so far" in again


def test_no_action_and_unknown_actions_are_refused() -> None:
    assert read("").errors == [{"loc": [], "msg": "Choose one of the actions"}]
    assert read("_action=explode").errors == [{"loc": [], "msg": "Choose one of the actions"}]


def test_fields_of_other_actions_are_not_part_of_the_answer() -> None:
    assert read("_action=approve&reject:reason=x&edit:edited.amount=abc").value == {"action": "approve"}


def test_a_choice_is_a_row_of_buttons() -> None:
    ask = prepare(Choice(subject="Which?", options={"north": "Go north", "south": "Go south"}), None)
    assert "Go north" in shown(ask.card, ask.schema)
    assert read("_action=south", ask).value == {"action": "south"}


def test_a_question_is_one_form() -> None:
    ask = prepare(Question(subject="How many?"), int)
    html = shown(ask.card, ask.schema)
    assert "Submit" in html
    assert "Not provided" not in html
    assert read("value=7", ask).value == 7
    assert read("value=x", ask).errors == [{"loc": [], "msg": "Must be a whole number, such as 12"}]


def test_the_desks_refusal_is_shown() -> None:
    refused = read("_action=approve")._replace(errors=[{"loc": [], "msg": "Not today"}])
    assert "Not today" in render(cards.build(ASK.card, ASK.schema, url="/x/", reading=refused))


def test_a_suggestion_is_filled_in() -> None:
    card = cards.build(ASK.card, ASK.schema, url="/x/", initial={"action": "reject", "reason": "as before"})
    assert "as before" in render(card)


def test_enter_in_a_field_cannot_press_a_button() -> None:
    html = shown(ASK.card, ASK.schema)
    assert html.index('<button type="submit" disabled hidden>') < html.index('name="_action"')


def test_what_the_author_left_out_is_said() -> None:
    words = "The workflow does not state evidence, what happens next, risk or how to undo."
    assert cards.build(ASK.card, ASK.schema).missing == words
    assert words not in shown(ASK.card, ASK.schema)


def test_without_an_address_there_is_no_form() -> None:
    assert "<form" not in shown(ASK.card, ASK.schema, url="")


def test_the_proposal_is_compared_with_what_is_there() -> None:
    html = shown({"subject": "x", "proposal": {"a": 1, "b": 2}, "current": {"a": 1, "b": 3}})
    assert "Changes" in html
    assert "<code>b</code>" in html
    assert "<code>a</code>" not in html
    assert "<mark>b</mark>" in shown({"proposal": "one b", "current": "one a"}).replace("\n", "")


EVIDENCE = [
    {"kind": "text", "title": "T", "value": "a\nb"},
    {"kind": "markdown", "title": "M", "value": "**bold**"},
    {"kind": "table", "title": "Tab", "value": [{"a": 1, "b": None}, {"a": 2, "c": True}]},
    {"kind": "table", "title": "Lists", "value": {"columns": ["x"], "rows": [[1, 2], [3]]}},
    {"kind": "json", "title": "J", "value": {"k": [1]}},
    {"kind": "diff", "title": "D", "value": "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"},
    {"kind": "diff", "title": "D2", "value": {"before": {"a": 1}, "after": {"a": 2}}},
    {"kind": "link", "title": "L", "value": "https://ok.example/x"},
    {"kind": "link", "title": "Bad", "value": "javascript:alert(1)"},
    {"kind": "code", "title": "C", "value": "x = 1", "language": "python"},
]


def test_every_kind_of_evidence_is_drawn() -> None:
    html = shown({"subject": "x", "evidence": EVIDENCE})
    for part in (
        "<strong>bold</strong>",
        '<th scope="col" dir="auto" class="nowrap">C</th>',
        "line",
        'href="https://ok.example/x"',
        "hl-",
    ):
        assert part in html
    assert 'href="javascript' not in html


@pytest.mark.parametrize(
    "odd", [None, 1, "text", [], [1, None], {"kind": "table"}, [{"kind": "diff", "value": 3}], [{"kind": "link"}]]
)
def test_a_card_of_any_shape_is_drawn(odd: Any) -> None:
    names = ("subject", "body", "proposal", "current", "evidence", "consequence", "risk", "undo", "context", "actions")
    for name in names:
        shown({name: odd, "proposal": {"a": 1}})
        shown({name: odd})


def test_untrusted_text_is_escaped_everywhere() -> None:
    evil = "<script>alert(1)</script>"
    keys = ("subject", "body", "proposal", "current", "risk", "undo", "consequence")
    card = dict.fromkeys(keys, evil) | {
        "context": {evil: evil},
        "evidence": [{"kind": "text", "title": evil, "value": evil}],
    }
    card["actions"] = [{"name": evil, "label": evil, "style": '"><b>', "fields": []}]
    assert "<script>" not in shown(card)


def test_every_id_of_a_card_is_unique() -> None:
    ids = read_controls(shown(ASK.card, ASK.schema)).ids
    assert len(ids) == len(set(ids))
