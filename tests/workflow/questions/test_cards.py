"""Cards: what can be shown and asked, and what is refused in the step that asks."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tests.workflow.world import answered, finished
from wfdash.contract import RunFailed
from wfdash.questions.card import Card
from wfdash.questions.cards import prepare
from wfdash.questions.evidence import File, Text
from wfdash.values.schemas.validate import problems_of
from wfdash.workflow import Approval, Choice, Context, Form, Option, Question, Workflow
from wfdash.workflow.errors import InvalidCall


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Payment(BaseModel):
    amount: int


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


def one_question(card: Card, answer: Any = None) -> Workflow:
    wf = Workflow("one_question")

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        said = await ctx.ask(card, answer=answer)
        return said.model_dump() if isinstance(said, BaseModel) else said

    return wf


def test_nothing_is_shown_of_what_was_not_given():
    asking = prepare(Approval(subject="Pay?"), None)
    assert set(asking.card) == {"subject", "actions"}


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
    wf = Workflow("bad")

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        return await ctx.ask(Approval(subject="x", evidence=[{"kind": "film", "value": 1}]))

    outcome = await wf.run(None)
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
    wf = Workflow("unknown_argument")

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        return await ctx.ask("Pay?", **{argument: 2})

    with pytest.raises(RunFailed, match=f"ctx.ask takes no {argument}=.*{words}"):
        (await wf.run(None)).result()
