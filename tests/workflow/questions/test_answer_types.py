"""An answer is refused where it is given by what its own type says, even where a JSON Schema cannot say it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, model_validator

from wfdash.contract import ChecksAnswers, InvalidInput
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Approval, Context, Finished, Question, Waiting, Workflow
from wfdash.workflow.answers import MARK, check_answer, find_type, name_type


def must_be_even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even: take the next number")
    return number


Even = Annotated[int, AfterValidator(must_be_even)]


class Line(BaseModel):
    count: Even = 2
    price: Decimal = Field(gt=0)

    @model_validator(mode="after")
    def _affordable(self) -> Line:
        if self.price * self.count > 100:
            raise ValueError("this costs too much: lower the count")
        return self


def asking(kind: Any, card: Any = None) -> Workflow:
    wf = Workflow("asking")

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        answer = await ctx.ask(card or Question(subject="What?"), answer=None if card else kind)
        return repr(answer)

    return wf


async def waiting(wf: Workflow) -> Waiting:
    outcome = await wf.run(None)
    assert isinstance(outcome, Waiting)
    return outcome


async def refusals(wf: Workflow, value: Any) -> list[tuple[str, str]]:
    """What is wrong with the answer: by the door's check and by the engine's own, which must agree."""
    outcome = await waiting(wf)
    (request,) = outcome.requests
    told = check_answer(wf.graph, request, value)
    answering = wf.run(answers={request.key: value}, checkpoint=outcome.checkpoint)
    if told:
        with pytest.raises(InvalidInput) as caught:
            await answering
        assert [problem["loc"][1:] for problem in caught.value.errors] == [problem["loc"] for problem in told]
    else:
        assert isinstance(await answering, Finished)
    return [(".".join(map(str, problem["loc"])), problem["msg"]) for problem in told]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Even, 4, []),
        (Even, 3, [("", "Must be even: take the next number")]),
        (list[Line], [{"price": 1}, {"count": 1, "price": 1}], [("1.count", "Must be even: take the next number")]),
        (Line, {"price": "-1"}, [("price", "Input should be greater than 0")]),
        (Line, {"price": "abc"}, [("price", "Input should be a valid decimal")]),
        (Line, {"price": 99}, [("", "This costs too much: lower the count")]),
        (Line | None, None, []),
        (dict[str, Even], {"a": 1}, [("a", "Must be even: take the next number")]),
        (tuple[Line, str], [{"price": 99}, "x"], [("0", "This costs too much: lower the count")]),
    ],
)
async def test_a_type_says_what_its_schema_cannot(kind: Any, value: Any, expected: list[Any]) -> None:
    assert await refusals(asking(kind), value) == expected


async def test_an_edited_proposal_is_judged_by_its_own_type() -> None:
    wf = asking(None, Approval(subject="Pay?", proposal={"price": 5}, edit=Line))
    assert await refusals(wf, {"action": "edit", "edited": {"count": 1, "price": 1}}) == [
        ("edited.count", "Must be even: take the next number")
    ]
    assert await refusals(wf, {"action": "approve"}) == []


async def test_plain_types_need_no_name_and_unnamed_ones_have_none() -> None:
    (plain,) = (await waiting(asking(int))).requests
    assert plain.answer_schema == {"type": "integer"}
    assert name_type(Annotated[int, AfterValidator(must_be_even)], {}) is None


async def test_a_name_that_has_come_to_mean_something_else_judges_nothing() -> None:
    wf = asking(Line)
    (request,) = (await waiting(wf)).requests
    other = request.model_copy(update={"answer_schema": {**request.answer_schema, MARK: f"{__name__}:Other"}})
    assert check_answer(wf.graph, other, {"price": "abc"}) == []
    changed = request.model_copy(update={"answer_schema": {**request.answer_schema, "required": []}})
    assert check_answer(wf.graph, changed, {"price": "abc"}) == []
    assert find_type("must_be_even", globals()) is Any
    assert find_type("os:path", {}) is Any


def break_down(value: str) -> str:
    return {}[value]


Fragile = Annotated[str, AfterValidator(break_down)]


async def test_a_check_that_breaks_refuses_and_names_what_broke() -> None:
    (request,) = (await waiting(asking(Fragile))).requests
    (problem,) = check_answer(asking(Fragile).graph, request, "x")
    assert "KeyError" in problem["msg"]


async def test_a_request_of_a_step_that_is_gone_is_left_to_its_schema() -> None:
    wf = asking(Line)
    (request,) = (await waiting(wf)).requests
    assert check_answer(wf.graph, request.model_copy(update={"step": "gone"}), {"price": "abc"}) == []


async def test_the_engine_offers_the_check_at_its_port() -> None:
    wf, engine = asking(Line), NativeEngine()
    (request,) = (await asyncio.wait_for(waiting(wf), 60)).requests
    assert isinstance(engine, ChecksAnswers)
    assert [problem["loc"] for problem in engine.check_answer(wf, request, {"price": "abc"})] == [["price"]]
