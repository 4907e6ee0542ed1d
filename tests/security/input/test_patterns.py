"""A pattern cannot be made to take longer than its text is long."""

from __future__ import annotations

import time
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from tests.workflow.world import flow
from wfdash.values.schemas.validate import problems_of
from wfdash.values.schemas.work import UnsupportedPattern, matcher_of
from wfdash.workflow import Approval, Context, Form, Workflow
from wfdash.workflow.errors import InvalidWorkflow

DECIMAL = {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}
"""What pydantic writes for ``Decimal``."""
HOSTILE = "a" * 60 + "b"


def quick(schema: dict[str, object], value: object) -> list[object]:
    """Return what is wrong with a value, and see that it was found at once."""
    began = time.thread_time()
    found = problems_of(schema, value)
    assert time.thread_time() - began < 1
    return [problem["loc"] for problem in found]


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(.*a){20}$", r"(a*)*\d"])
def test_no_pattern_backtracks(pattern: str):
    assert quick({"type": "string", "pattern": pattern}, HOSTILE) in ([[]], [])
    by_name = {"type": "object", "patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False}
    assert quick(by_name, {HOSTILE: "x"}) == [[HOSTILE]]


def test_patterns_are_checked_as_pydantic_checks_them():
    class Order(BaseModel):
        code: str = Field(pattern=r"^[A-Z]{2}-\d+$")
        counts: dict[Annotated[str, Field(pattern=r"^n\d+$")], int] = {}

    schema = TypeAdapter(Order).json_schema()
    assert quick(schema, {"code": "AB-1", "counts": {"n1": 1}}) == []
    assert quick(schema, {"code": "ab-1", "counts": {"n1": "x"}}) == [["code"], ["counts", "n1"]]


@pytest.mark.parametrize(
    ("text", "fits"), [("12.50", True), ("-3", True), (".5", True), ("", False), ("-", False), ("1x", False)]
)
def test_the_look_ahead_of_decimals_is_understood(text: str, fits: bool):
    assert (quick(DECIMAL, text) == []) is fits


def test_a_long_number_of_zeros_is_judged_at_once():
    assert quick(DECIMAL, "0" * 100_000 + "x") != []


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", r"(?<!a)b", r"[", r"(?:a{1000}){1000}"])
def test_what_could_take_forever_is_refused_and_named(pattern: str):
    with pytest.raises(UnsupportedPattern, match="cannot be checked"):
        matcher_of(pattern)
    (problem,) = problems_of({"type": "string", "pattern": pattern}, HOSTILE)
    assert "schema of this value is invalid" in problem["msg"]


def test_unevaluated_properties_beside_patterns_are_refused():
    schema = {"patternProperties": {r"^(a+)+$": {"type": "string"}}, "unevaluatedProperties": False}
    assert quick(schema, {HOSTILE: 1}) == [[]]
    assert quick({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}) == [[]]


class Looking(BaseModel):
    model_config = {"regex_engine": "python-re"}
    code: str = Field(pattern=r"^(?=a)\w+$")


def test_a_workflow_whose_input_cannot_be_checked_is_not_loaded():
    def only(message: Looking) -> str:
        return message.code

    with pytest.raises(InvalidWorkflow, match="look-around"):
        flow(only, name="looking").input_schema()


@pytest.mark.parametrize("ask", [lambda: (Form(subject="Which?"), Looking), lambda: (Approval(subject="Go?"), None)])
async def test_a_question_whose_answer_cannot_be_checked_fails_its_step(ask):
    wf = Workflow("asking")
    card, answer = ask()

    @wf.step(start=True)
    async def only(ctx: Context) -> str:
        return str(await ctx.ask(card, answer=answer))

    outcome = await wf.run(None)
    assert ("look-around" in str(outcome)) is (answer is Looking)
