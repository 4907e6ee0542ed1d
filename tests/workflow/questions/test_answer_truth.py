"""What ``wfdash check`` says of code that asks whether an answer is true."""

# mypy: disable-error-code="unreachable, call-overload"

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tests.workflow.world import failed, finished, flow
from wfdash.workflow import Approval, Choice, Context, Form, Question, ToolCall, Workflow
from wfdash.workflow.flaws import truth_flaws

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
    assert problem.startswith(f"step 'go' tests whether {words}")
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
    wf = Workflow("nothing_proposed")

    @wf.step(start=True)
    async def go(ctx: Context) -> Any:
        decision = await ctx.ask(Approval(subject="Pay?", edit=int))
        return decision.value

    waiting = await wf.run(None)
    approved = await wf.run(checkpoint=waiting.checkpoint, answers=waiting.answer("approve"))
    assert "give Approval(proposal=...), or test decision.approved" in failed(approved)
    edited = await wf.run(checkpoint=waiting.checkpoint, answers=waiting.answer("edit", edited=0))
    assert finished(edited) == 0
    rejected = await wf.run(checkpoint=waiting.checkpoint, answers=waiting.answer("reject"))
    assert finished(rejected) is None
