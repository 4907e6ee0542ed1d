"""What a card shows, whom it is for, and how a tool call is asked about."""

from __future__ import annotations

import json
from datetime import date
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from tests.workflow.world import answered, finished, flow
from wfdash.contract import Addressees, NamesPeople, RunFailed
from wfdash.engines.native import NativeEngine
from wfdash.questions.card import Asking, Card
from wfdash.questions.cards import prepare
from wfdash.questions.evidence import File, Text
from wfdash.values.schemas.validate import problems_of
from wfdash.workflow import Approval, Choice, Context, Form, Option, Policy, Question, ToolCall, ToolDecision, Workflow
from wfdash.workflow.errors import InvalidCall


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Payment(BaseModel):
    amount: int


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


def one_question(card: Card, answer: Any = None) -> Workflow:
    async def ask(ctx: Context) -> Any:
        said = await ctx.ask(card, answer=answer)
        return said.model_dump() if isinstance(said, BaseModel) else said

    return flow(ask)


def test_nothing_is_shown_of_what_was_not_given():
    assert set(prepare(Approval(subject="Pay?"), None).card) == {"subject", "actions"}


def test_false_and_zero_are_a_proposal():
    assert [prepare(Approval(subject="x", proposal=value), None).card["proposal"] for value in (0, False)] == [0, False]


def test_a_misspelt_part_is_refused():
    with pytest.raises(ValidationError, match="Approval has no evidnce=: did you mean evidence=") as refused:
        Approval(subject="x", evidnce=[])
    assert refused.value.error_count() == 1
    with pytest.raises(ValidationError, match="qqq"):
        Approval(subject="x", qqq=1)


@pytest.mark.parametrize(
    "card",
    [
        Approval(subject="x", consequence={"aprove": "It is paid"}),
        Approval(subject="x", labels={"edit": "Mend it"}),
        Choice(subject="x", options=["a"], consequence={"b": "?"}),
    ],
)
def test_what_is_said_about_an_action_that_there_is_not_is_refused(card: Card):
    with pytest.raises(InvalidCall, match="actions are"):
        prepare(card, None)


def test_a_card_that_is_too_large_is_refused_with_its_size():
    files = [File(name=f"{n}.bin", data=bytes(2_000_000)) for n in range(4)]
    with pytest.raises(InvalidCall, match=r"'Pay\?': the card is 10.7 MB, at most 8 MB"):
        prepare(Approval(subject="Pay?", evidence=files), None)


async def test_a_step_that_asks_badly_fails_and_says_why():
    async def ask(ctx: Context) -> Any:
        return await ctx.ask(Approval(subject="x", evidence=[{"kind": "film", "value": 1}]))

    outcome = await flow(ask).run(None)
    assert "Input tag 'film'" in str(outcome)


@pytest.mark.parametrize("card", [Question(subject="n?"), Form(subject="n?")])
async def test_a_json_schema_is_an_answer_type(card: Card):
    wf = one_question(card, SCHEMA)
    outcome = await wf.run(None)
    assert outcome.requests[0].answer_schema == SCHEMA
    assert problems_of(outcome.requests[0].answer_schema, {"n": 0})
    assert finished(await answered(wf, outcome, {"n": 3})) == {"n": 3}


async def test_an_edit_may_have_a_json_schema():
    wf = one_question(Approval(subject="x", proposal={"n": 1}, edit=SCHEMA))
    outcome = await wf.run(None)
    assert problems_of(outcome.requests[0].answer_schema, {"action": "edit", "edited": {"n": 0}})
    decision = finished(await answered(wf, outcome, {"action": "edit", "edited": {"n": 2}}))
    assert decision["edited"] == {"n": 2}


def test_what_is_no_json_schema_is_refused_when_it_is_asked():
    with pytest.raises(InvalidCall, match=r"no JSON Schema: properties\.n\.type"):
        prepare(Form(subject="x"), {"properties": {"n": {"type": "numbr"}}})


async def test_several_options_are_ticked():
    card = Choice(
        subject="Which?", options=[Option(name="a", description="the first"), "b", "c"], multiple=True, at_most=2
    )
    wf = one_question(card)
    outcome = await wf.run(None)
    request = outcome.requests[0]
    assert request.card["options"][0] == {"name": "a", "label": "a", "description": "the first"}
    for wrong in ([], ["a", "b", "c"], ["a", "a"], ["d"], "a"):
        assert problems_of(request.answer_schema, wrong)
    assert finished(await answered(wf, outcome, ["c", "a"])) == ["c", "a"]


def test_options_take_a_type():
    one = prepare(Choice(subject="x", options=["red", "blue"]), Colour)
    assert one.read({"action": "blue"}, None) is Colour.BLUE
    several = prepare(Choice(subject="x", options=["red", "blue"], multiple=True), list[Colour])
    assert several.read(["red"], None) == [Colour.RED]


def test_an_options_description_stands_by_its_button():
    card = prepare(
        Choice(subject="x", options=[Option(name="a", label="A!", description="why", style="danger")]), None
    ).card
    assert card["actions"] == [
        {"name": "a", "label": "A!", "style": "danger", "fields": [], "required": [], "description": "why"}
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": []},
        {"options": ["a", "a"]},
        {"options": ["a"], "at_most": 1},
        {"options": ["a"], "multiple": True, "at_least": 2},
        {"options": ["a", "b", "c"], "multiple": True, "at_least": 3, "at_most": 2},
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(wrong: dict[str, Any]):
    with pytest.raises(ValidationError):
        Choice(subject="x", **wrong)


@given(st.from_type(type).flatmap(st.from_type) | st.binary() | st.floats() | st.text())
def test_any_value_can_be_proposed(value: Any):
    asking = prepare(Approval(subject="x", proposal=[value], context={"it": value}), None)
    json.dumps(asking.card, allow_nan=False).encode()


def test_plain_dicts_are_evidence_too():
    pieces = [{"kind": "text", "value": "a"}, Text(value="b"), {"kind": "table", "value": [{"n": 1}]}]
    shown = prepare(Approval(subject="x", evidence=pieces), None).card["evidence"]
    assert [piece["value"] for piece in shown] == ["a", "b", [{"n": 1}]]


@pytest.mark.parametrize("card", [Approval(subject=""), Approval(subject=" \n"), Choice(subject="", options=["a"]), ""])
def test_a_card_without_a_subject_is_refused(card: Any):
    with pytest.raises(InvalidCall, match="without a subject"):
        prepare(card, None)


@pytest.mark.parametrize(
    ("argument", "words"), [("need", r"give policy=Policy\(need=\.\.\.\)"), ("colour", "see its docstring")]
)
async def test_an_argument_that_ask_does_not_take_says_where_it_goes(argument: str, words: str):
    async def ask(ctx: Context) -> Any:
        return await ctx.ask("Pay?", **{argument: 2})

    with pytest.raises(RunFailed, match=f"ctx.ask takes no {argument}=.*{words}"):
        (await flow(ask).run(None)).result()


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
    assert asking.card["subject"] == "DE1, amount 5 · transfer"
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
            {"tool": "refund_customer", "arguments": {"order": "A-71443", "amount": 163.95, "currency": "EUR"}},
            "A-71443, 163.95 EUR · refund_customer",
        ),
        ({"tool": "send", "arguments": {"to": ["a"], "body": "a\nb " + 50 * "x"}}, f"a b {35 * 'x'}… · send"),
        (
            {"tool": "sign_in", "arguments": {"user": "ana", "password": "hush"}, "parameters": Login},
            "ana · sign_in",
        ),
        (
            {"tool": "notify", "arguments": {"to_all": True, " a\n=b ": "", "x" * 50: 1}},
            f"to all yes, {39 * 'x'}… 1 · notify",
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


LAWYERS = "legal"
STRICT = Policy(by="board", need=2, override=False)


def addressees_asked(workflow: Workflow) -> dict[str, list[Addressees]]:
    engine = NativeEngine()
    assert isinstance(engine, NamesPeople)
    found: dict[str, list[Addressees]] = {}
    for one in engine.addressees(workflow):
        found.setdefault(one.step, []).append(one)
    return found


def written() -> Workflow:
    flow = Workflow("payments", policy=Policy(not_by="requester", due="4h", escalate="cfo"))

    @flow.step(start=True)
    async def text(message: str, ctx: Context) -> str:
        await ctx.ask(Approval(subject="1"), by="finance")
        await ctx.ask(Approval(subject="2"), by="finance")
        await ctx.ask(Approval(subject="3"), by=("finance", LAWYERS), not_by=["interns"])
        return message

    @flow.step(after=text)
    async def policy(message: str, ctx: Context) -> str:
        await ctx.ask(Approval(subject="1"), policy=STRICT)
        await ctx.ask(Approval(subject="2"), policy=Policy(by=LAWYERS, need=3))
        return message

    @flow.step(after=policy)
    async def computed(message: str, ctx: Context) -> str:
        group = message
        await ctx.ask(Approval(subject="1"), by=group)
        await ctx.ask(Approval(subject="2"), policy=Policy(by=group))
        await ctx.ask(Approval(subject="3"), by=f"{message}s", not_by="interns")
        return message

    @flow.step(after=computed)
    async def silent(message: str, ctx: Context) -> str:
        return message

    @flow.step(after=silent)
    async def plain(message: str, ctx: Context) -> None:
        await ctx.ask("Sure?")

    return flow


def test_names_that_are_written_or_constant_are_known_and_each_way_is_given_once() -> None:
    first, second = addressees_asked(written())["text"]
    assert (first.by, first.not_by, first.escalate, first.certain) == (("finance",), ("requester",), ("cfo",), True)
    assert (second.by, second.not_by, second.certain) == (("finance", "legal"), ("interns",), True)


def test_a_policy_counts_whether_it_is_written_there_or_has_a_name() -> None:
    strict, lawyers = addressees_asked(written())["policy"]
    assert (strict.by, strict.need, strict.override, strict.certain) == (("board",), 2, False, True)
    assert (lawyers.by, lawyers.need, lawyers.not_by) == (("legal",), 3, ("requester",))


def test_what_only_a_running_step_knows_is_not_guessed() -> None:
    assert [(one.by, one.not_by, one.certain) for one in addressees_asked(written())["computed"]] == [
        ((), ("requester",), False),
        ((), ("interns",), False),
    ]


def test_a_step_that_says_nothing_has_the_workflow_s_policy_and_one_that_asks_nothing_is_missing() -> None:
    found = addressees_asked(written())
    assert [(one.by, one.not_by, one.certain) for one in found["plain"]] == [((), ("requester",), True)]
    assert "silent" not in found


def test_tiers_are_decided_when_it_is_asked() -> None:
    flow = Workflow("tiers", policy=Policy(by="finance", tiers=lambda proposal: None))

    @flow.step(start=True)
    async def review(message: str, ctx: Context) -> None:
        await ctx.ask(Approval(subject="1"))

    (one,) = addressees_asked(flow)["review"]
    assert (one.by, one.certain) == (("finance",), False)


def test_a_step_for_people_whose_source_is_missing_is_not_certain() -> None:
    flow = Workflow("evaluated")
    names: dict[str, object] = {"Context": Context}
    exec("async def review(message: str, ctx: Context) -> None:\n    await ctx.ask('Sure?', by='finance')", names)
    flow.step(start=True, people=True)(names["review"])
    (one,) = addressees_asked(flow)["review"]
    assert (one.by, one.certain) == ((), False)
