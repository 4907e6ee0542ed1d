"""What an answer means, who judges it, and what is asked of a call that was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, model_validator

from checkpoints.records import Checkpoint
from tests.forms.models import Even, must_be_even
from tests.workflow.world import ListRecorder, PowerCut, answered, failed, finished, flow
from wfdash.contract import ChecksAnswers, Failed, InvalidInput
from wfdash.engines.native import NativeEngine
from wfdash.workflow import (
    Approval,
    Choice,
    Context,
    Finished,
    Form,
    Policy,
    Question,
    ToolCall,
    Waiting,
    Workflow,
    each,
    gather,
)
from wfdash.workflow.answers import MARK, check_answer, find_type, name_type
from wfdash.workflow.flaws import truth_flaws
from wfdash.workflow.stored import intent

Step = Callable[[Context], Awaitable[Any]]


class Order(BaseModel):
    amount: int


class Colour(StrEnum):
    RED = "red"


CARD = Approval(subject="Pay?")


async def branches_it_at_once(ctx: Context) -> str:
    if await ctx.ask(Approval(subject="Pay?")):
        return "paid"
    return "rejected"


async def branches_a_name(ctx: Context) -> str:
    decision = await ctx.ask(CARD)
    if not decision:
        return "rejected"
    return "paid"


async def branches_in_a_loop(ctx: Context) -> None:
    decision = None
    while not decision:
        decision = await ctx.ask(Approval(subject="Pay?"))


async def branches_with_a_default(ctx: Context) -> Any:
    return await ctx.ask(Approval(subject="Pay?")) or "rejected"


async def branches_with_and(ctx: Context) -> Any:
    card = Approval(subject="Pay?")
    decision = await ctx.ask(card)
    return decision and "paid"


async def chooses_by_it(ctx: Context) -> str:
    return "paid" if (given := await ctx.ask(ToolCall(tool="pay"))) else str(given)


async def asserts_it(ctx: Context) -> None:
    assert await ctx.ask(card=Approval(subject="Pay?")), "rejected"


async def turns_it_into_a_bool(ctx: Context) -> bool:
    return bool(await ctx.ask(Approval(subject="Pay?")))


async def asks_several(ctx: Context) -> bool:
    first, second = await asyncio.gather(ctx.ask(CARD), ctx.ask(CARD))
    return first.approved and all([second])


async def filters_by_it(ctx: Context) -> list[int]:
    return [n for n in range(3) if await ctx.ask(Approval(subject=f"{n}?"))]


async def branches_a_choice(ctx: Context) -> str:
    if await ctx.ask(Choice(subject="Pay?", options=["yes", "no"])):
        return "paid"
    return ""


async def branches_a_text(ctx: Context) -> str:
    go = await ctx.ask("Go on?")
    return "on" if go or ctx.attempt else ""


async def branches_a_model(ctx: Context) -> str:
    return "paid" if await ctx.ask(Form(subject="Order?"), answer=Order) else ""


async def branches_one_of_two(ctx: Context) -> str:
    return "paid" if await ctx.ask(Question(subject="Pay?"), Literal["yes", "no"]) else ""


async def branches_a_member(ctx: Context) -> str:
    return "paid" if await ctx.ask("Colour?", answer=Colour) else ""


async def continues_by_its_value(ctx: Context) -> Any:
    decision = await ctx.ask(Approval(subject="Pay?", proposal=0, edit=int))
    return decision.value or "rejected"


DECISION = "a Decision is true: say .approved"
WRONG: dict[Step, tuple[int, str]] = {
    branches_it_at_once: (1, DECISION),
    branches_a_name: (2, DECISION),
    branches_in_a_loop: (2, DECISION),
    branches_with_a_default: (1, DECISION),
    branches_with_and: (3, DECISION),
    chooses_by_it: (1, "a ToolDecision is true: say .approved"),
    asserts_it: (1, DECISION),
    turns_it_into_a_bool: (1, DECISION),
    asks_several: (2, DECISION),
    filters_by_it: (1, DECISION),
    branches_a_choice: (1, "the name of an option is true: compare it"),
    branches_a_text: (2, "a text is true: 'no' is true, too: ask with answer=bool"),
    branches_a_model: (1, "a Order is true: it always is"),
    branches_one_of_two: (1, "one of several values is true: compare it"),
    branches_a_member: (1, "a Colour is true: it always is"),
    continues_by_its_value: (2, ".value is true, which 0 or an empty text is not: say .approved"),
}


async def says_what_it_means(ctx: Context) -> str:
    decision = await ctx.ask(Approval(subject="Pay?", proposal=Order(amount=1), edit=Order))
    order = decision.value or Order(amount=0)
    if not decision.approved and decision is not None:
        return decision.reason or "rejected"
    if await ctx.ask("Go on?", answer=bool) and not await ctx.ask("How many?", answer=int):
        return str(order)
    several = await ctx.ask(Choice(subject="Which?", options=["a", "b"], multiple=True, at_least=0))
    if several and "a" in several:
        return (await ctx.ask("Why?")) or "no reason"
    decision = ctx.state.get("other")
    return "other" if decision else "none"


@pytest.mark.parametrize("step", WRONG, ids=lambda one: one.__name__)
def test_a_test_of_an_answers_truth_is_named_with_its_line(step: Any) -> None:
    line, words = WRONG[step]
    ((problem, place),) = truth_flaws(flow(step).graph)
    assert problem.startswith(f"step '{step.__name__}' tests whether {words}")
    assert place == f"{__file__}:{step.__code__.co_firstlineno + line}"


def test_an_answer_that_is_compared_is_no_problem() -> None:
    assert list(truth_flaws(flow(says_what_it_means).graph)) == []


@pytest.mark.parametrize(
    "step", [branches_it_at_once, branches_a_name, branches_with_a_default, chooses_by_it, asserts_it]
)
async def test_a_step_that_tests_the_truth_of_a_decision_fails_and_says_what_to_write(step: Step) -> None:
    wf = flow(step)
    for action in ("approve", "reject"):
        outcome = await wf.run(None)
        outcome = await wf.run(checkpoint=outcome.checkpoint, answers=outcome.answer(action))
        assert "say decision.approved" in failed(outcome)


async def test_what_was_approved_without_a_proposal_says_what_to_write() -> None:
    async def go(ctx: Context) -> Any:
        decision = await ctx.ask(Approval(subject="Pay?", edit=int))
        return decision.value

    wf = flow(go)
    waiting = await wf.run(None)
    approved = await wf.run(checkpoint=waiting.checkpoint, answers=waiting.answer("approve"))
    assert "give Approval(proposal=...), or test decision.approved" in failed(approved)
    edited = await wf.run(checkpoint=waiting.checkpoint, answers=waiting.answer("edit", edited=0))
    assert finished(edited) == 0
    rejected = await wf.run(checkpoint=waiting.checkpoint, answers=waiting.answer("reject"))
    assert finished(rejected) is None


class Line(BaseModel):
    count: Even = 2
    price: Decimal = Field(gt=0)

    @model_validator(mode="after")
    def _affordable(self) -> Line:
        if self.price * self.count > 100:
            raise ValueError("this costs too much: lower the count")
        return self


def asking(kind: Any, card: Any = None) -> Workflow:
    async def ask(ctx: Context) -> Any:
        answer = await ctx.ask(card or Question(subject="What?"), answer=None if card else kind)
        return repr(answer)

    return flow(ask)


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


AT = datetime(2026, 1, 1, tzinfo=UTC)


class Card(BaseModel):
    holder: str
    number: str = Field(json_schema_extra={"writeOnly": True})


class OrderToPay(BaseModel):
    customer: str
    card: Card


def charge(
    customer: str, amount: int, card: Card, pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})] = ""
) -> int:
    return amount


class Client:
    def __repr__(self) -> str:
        return "Client(api_key='hush')"


def charging() -> Workflow:
    wf = Workflow("charging", policy=Policy(by=("finance",)))

    @wf.step(start=True)
    async def orders(names: list[str]) -> list[OrderToPay]:
        return [OrderToPay(customer=name, card=Card(holder=name, number="4111")) for name in names]

    @wf.step(after=each(orders))
    async def item(order: OrderToPay, ctx: Context) -> int:
        return await ctx.call(charge, order.customer, amount=7, card=order.card, once=True)

    @wf.step(after=gather(item))
    async def total(paid: list[int]) -> int:
        return sum(paid)

    return wf


async def cut(wf: Workflow) -> Checkpoint:
    """Return the checkpoint of a run that died between intents and results."""
    for commits in range(2, 10):
        recorder = ListRecorder(dies_after=commits)
        try:
            await wf.run(["ana", "ben"], storage=recorder)
        except PowerCut:
            journals = [one["journal"] for one in recorder.latest.body["position"]["live"].values()]
            if sum(len(journal) and "result" not in journal[0] for journal in journals) == 2:
                return recorder.latest
    raise AssertionError("no such moment")


async def test_two_calls_of_a_map_can_be_told_apart() -> None:
    wf = charging()
    outcome = await wf.run(checkpoint=await cut(wf))
    assert isinstance(outcome, Waiting)
    first, second = (request.card for request in outcome.requests)
    shown = {piece["title"]: piece["value"] for piece in second["evidence"]}
    assert shown["Call arguments"] == {"customer": "ben", "amount": 7, "card": {"holder": "ben", "number": "•••"}}
    assert shown["Step input"] == {"customer": "ben", "card": {"holder": "ben", "number": "•••"}}
    assert (first["subject"], second["subject"]) == tuple(
        f"Did 'charge' succeed (customer {name}, amount 7)?" for name in ("ana", "ben")
    )
    assert (first["context"]["item"], second["context"]["item"]) == (1, 2)
    assert datetime.fromisoformat(second["context"]["begun"]).tzinfo
    assert {request.by for request in outcome.requests} == {("finance",)}
    assert "4111" not in str([request.model_dump() for request in outcome.requests])
    assert finished(await answered(wf, outcome, {"action": "again"})) == 14


def charging_by(price: Callable[[], int]) -> Workflow:
    async def item(names: list[str], ctx: Context) -> int:
        card = Card(holder="ana", number="4111")
        paid = [await ctx.call(charge, name, amount=price(), card=card, once=True) for name in names]
        return sum(paid)

    return flow(item)


async def cut_at_the_call(wf: Workflow) -> Waiting:
    recorder = ListRecorder(dies_after=2)
    with pytest.raises(PowerCut):
        await wf.run(["ana"], storage=recorder)
    outcome = await wf.run(checkpoint=recorder.latest)
    assert isinstance(outcome, Waiting)
    return outcome


def amount_shown(outcome: Waiting) -> Any:
    (request,) = outcome.requests
    return next(one["value"] for one in request.card["evidence"] if "arguments" in one["title"])["amount"]


async def test_a_call_is_made_again_only_as_it_was_shown() -> None:
    price = [7]
    wf = charging_by(lambda: price[0])
    outcome = await cut_at_the_call(wf)
    assert amount_shown(outcome) == 7
    price[0] = 900
    outcome = await answered(wf, outcome, {"action": "again"})
    assert isinstance(outcome, Waiting)
    assert amount_shown(outcome) == 900
    (request,) = outcome.requests
    assert request.card["asked_again"] == {"parts": ["arguments"], "was": "call-1.0", "answered": True}
    assert finished(await answered(wf, outcome, {"action": "again"})) == 900


async def test_a_call_whose_arguments_differ_each_time_is_not_asked_about_forever() -> None:
    numbers = count()
    wf = charging_by(lambda: next(numbers))
    outcome = await cut_at_the_call(wf)
    for _ in range(3):
        outcome = await answered(wf, outcome, {"action": "again"})
        assert isinstance(outcome, Waiting)
    outcome = await answered(wf, outcome, {"action": "again"})
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "ReplayMismatch"


async def test_an_intent_that_was_recorded_without_arguments_is_still_asked_about() -> None:
    wf = charging()
    text = (await cut(wf)).model_dump()
    for record in text["body"]["position"]["live"].values():
        for entry in record["journal"]:
            del entry["args"], entry["at"]
    outcome = await wf.run(checkpoint=Checkpoint.model_validate(text))
    assert isinstance(outcome, Waiting)
    assert [[piece["title"] for piece in request.card["evidence"]] for request in outcome.requests] == [
        ["Step input"],
        ["Step input"],
    ]


@pytest.mark.parametrize(
    ("args", "kwargs", "kept"),
    [
        (("ana", 7), {"card": None}, {"customer": "ana", "amount": 7, "card": None}),
        (("ana", 7, None, "1234"), {}, {"customer": "ana", "amount": 7, "card": None, "pin": "•••"}),
        (("ana",), {"wrong": 1}, {"1": "ana", "wrong": 1}),
    ],
)
def test_arguments_are_kept_by_name_without_secrets(args: Any, kwargs: Any, kept: Any) -> None:
    assert intent(charge, args, kwargs, AT) == {"args": kept, "at": "2026-01-01T00:00:00+00:00"}


def test_what_an_object_says_of_itself_is_not_kept() -> None:
    assert intent(lambda client: None, (Client(),), {}, AT)["args"] == {"client": "(Client)"}


def test_large_arguments_are_cut() -> None:
    assert len(str(intent(lambda rows, text: None, (list(range(100_000)), "x" * 9_000), {}, AT)["args"])) < 2_000


async def test_the_arguments_of_a_call_that_is_done_are_not_kept() -> None:
    wf, recorder = charging(), ListRecorder()
    assert finished(await wf.run(["ana"], storage=recorder)) == 7
    entries = [
        entry
        for commit in recorder.commits
        if commit.checkpoint
        for record in commit.checkpoint.body["position"]["live"].values()
        for entry in record["journal"]
    ]
    assert {"args" in entry for entry in entries if "result" in entry} == {False}


def test_arguments_that_a_function_takes_as_they_come_are_shown_by_their_names():
    def pay(order: int, **options: int) -> None: ...

    now = datetime.now(UTC)
    assert intent(pay, (7,), {"amount": 3}, now)["args"] == {"order": 7, "amount": 3}
    assert intent(pay, (7,), {}, now)["args"] == {"order": 7}
