"""Tool calls: approve what was seen, edit, reject with feedback, answer in the tool's place."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.workflow.world import answered, finished
from wfdash.questions.card import Asking
from wfdash.questions.cards import prepare
from wfdash.values.schemas.validate import problems_of
from wfdash.workflow import Context, ToolCall, ToolDecision, Workflow
from wfdash.workflow.errors import InvalidCall


def transfer(iban: str, amount: int, on: date | None = None, note: str = "", ctx: Context | None = None) -> str:
    """Send money.

    No one can take it back.
    """
    return f"{amount} to {iban} on {on}"


class Mail(BaseModel):
    to: str
    body: str


def asked(**card: Any) -> Asking:
    return prepare(ToolCall(**{"tool": transfer, "arguments": {"iban": "DE1", "amount": 5}, **card}), None)


def test_the_function_says_what_its_arguments_are():
    asking = asked()
    assert asking.card["subject"] == "transfer: iban DE1, amount 5"
    assert asking.card["tool"] == {"name": "transfer", "description": "Send money."}
    assert [action["name"] for action in asking.card["actions"]] == ["approve", "edit", "reject", "respond"]
    shape = asking.schema["properties"]["arguments"]
    assert list(shape["properties"]) == ["iban", "amount", "on", "note"]
    assert shape["required"] == ["iban", "amount"]
    assert shape["properties"]["note"]["default"] == ""


def test_approved_arguments_have_the_functions_types():
    decision = asked(arguments={"iban": "DE1", "amount": 5, "on": date(2026, 1, 2)})
    read = decision.read({"action": "approve"}, decision.seen)
    assert read.approved
    assert transfer(**read.arguments) == "5 to DE1 on 2026-01-02"


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "edit"},
        {"action": "edit", "arguments": {"iban": "DE1"}},
        {"action": "edit", "arguments": {"iban": "DE1", "amount": "much"}},
        {"action": "edit", "arguments": {"iban": "DE1", "amount": 1, "to": "me"}},
        {"action": "respond"},
        {"action": "respond", "response": ""},
        {"action": "run"},
        {"action": "approve", "more": 1},
    ],
)
def test_answers_that_make_no_sense_are_refused(answer: dict[str, Any]):
    assert problems_of(asked().schema, answer)


def test_every_way_to_answer_gives_a_decision():
    asking = asked()
    read = [
        asking.read({"action": "edit", "arguments": {"iban": "DE2", "amount": 6}}, asking.seen),
        asking.read({"action": "reject", "feedback": "too much"}, asking.seen),
        asking.read({"action": "respond", "response": "paid already"}, asking.seen),
    ]
    assert [one.approved for one in read] == [True, False, False]
    assert read[0].arguments == {"iban": "DE2", "amount": 6}
    assert (read[1].feedback, read[2].response) == ("too much", "paid already")


def test_arguments_that_do_not_fit_cannot_be_approved():
    asking = asked(arguments={"iban": "DE1", "amount": "five"})
    assert asking.card["tool"]["flaws"] == ["amount: Must be a whole number"]
    assert [action["name"] for action in asking.card["actions"]] == ["edit", "reject", "respond"]
    assert problems_of(asking.schema, {"action": "approve"})
    with pytest.raises(InvalidCall, match="only approve is allowed"):
        asked(arguments={}, allow=("approve",))


def test_a_rejection_must_say_why_where_that_is_wanted():
    asking = asked(require_feedback=True)
    assert problems_of(asking.schema, {"action": "reject"})
    assert not problems_of(asking.schema, {"action": "reject", "feedback": "no"})


def test_a_model_or_a_schema_says_it_instead():
    model = asked(tool="send", arguments={"to": "a", "body": "b"}, parameters=Mail)
    assert model.read({"action": "approve"}, model.seen).arguments == {"to": "a", "body": "b"}
    assert model.types == {"arguments": Mail}
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}
    assert "approve" in str(asked(tool="send", arguments={"n": 3}, parameters=schema).schema)
    assert "flaws" in asked(tool="send", arguments={"n": 4}, parameters=schema).card["tool"]


def test_a_name_alone_is_edited_by_what_its_arguments_look_like():
    shape = asked(tool="send", arguments={"n": 1, "text": "a\nb", "tags": ["x"]}).schema["properties"]["arguments"]
    assert shape["properties"] == {
        "n": {"type": "integer"},
        "text": {"type": "string", "format": "textarea"},
        "tags": {},
    }


@pytest.mark.parametrize("arguments", [{"x": object()}, {"x": float("nan")}, {"x": b"\xff"}])
def test_arguments_that_cannot_be_stored_are_refused(arguments: dict[str, Any]):
    with pytest.raises(Exception, match=r"stored|no JSON number"):
        asked(tool="send", arguments=arguments)


async def test_what_was_seen_is_what_is_approved_whatever_the_code_proposes_by_then():
    wf, proposed = Workflow("agent"), iter([1, 2, 3])

    @wf.step(start=True)
    async def activation(ctx: Context) -> dict[str, Any]:
        decision = await ctx.ask(ToolCall(tool=transfer, arguments={"iban": "DE1", "amount": next(proposed)}))
        assert isinstance(decision, ToolDecision)
        return decision.arguments

    outcome = await wf.run(None)
    assert outcome.requests[0].card["proposal"]["amount"] == 1
    assert finished(await answered(wf, outcome, {"action": "approve"})) == {"iban": "DE1", "amount": 1}


class Login(BaseModel):
    user: str
    password: str = Field(json_schema_extra={"writeOnly": True})


@pytest.mark.parametrize(
    ("card", "subject"),
    [
        (
            {"tool": "refund_customer", "arguments": {"order": "A-71443", "amount": 128}},
            "refund_customer: order A-71443, amount 128",
        ),
        ({"tool": "send", "arguments": {"to": ["a"], "body": "a\nb " + 50 * "x"}}, f"send: body “a b {35 * 'x'}…”"),
        (
            {"tool": "sign_in", "arguments": {"user": "ana", "password": "hush"}, "parameters": Login},
            "sign_in: user ana",
        ),
        (
            {"tool": "notify", "arguments": {"to_all": True, " a\n=b ": "", "x" * 50: 1}},
            f"notify: to all yes, {39 * 'x'}… 1",
        ),
        ({"tool": "sync", "arguments": {}}, "Call sync?"),
        ({"tool": "sync", "arguments": {"n": 1}, "subject": "Sync now?"}, "Sync now?"),
    ],
)
def test_a_call_is_named_by_its_arguments(card: dict[str, Any], subject: str):
    assert asked(**card).card["subject"] == subject


def test_what_an_author_says_of_one_action_leaves_the_others_as_they_are():
    told = asked(consequence={"approve": "The money leaves at noon."}).card["consequence"]
    assert told["approve"] == "The money leaves at noon."
    assert set(told) == {"approve", "edit", "reject", "respond"}
    assert asked(consequence="Think twice.").card["consequence"] == "Think twice."
