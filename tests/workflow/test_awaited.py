"""What a step asks, calls or sleeps has to be awaited: ``wfdash check`` names the line, a run the remedy."""

# mypy: disable-error-code="attr-defined, unused-coroutine, comparison-overlap, index, no-any-return, truthy-bool"

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.workflow.world import failed, finished, flow
from wfdash.contract import Waiting
from wfdash.workflow import Approval, Context, Workflow
from wfdash.workflow.flaws import await_flaws

Step = Callable[[Context], Awaitable[Any]]


async def uses_it_at_once(ctx: Context) -> str:
    return "yes" if ctx.ask(Approval(subject="Pay?")).approved else "no"


async def uses_a_name(ctx: Context) -> str:
    decision = ctx.ask(Approval(subject="Pay?"))
    return "yes" if decision.approved else "no"


async def uses_it_as_a_number(ctx: Context) -> bool:
    amount = ctx.ask("How much?", answer=int)
    return amount > 3


async def branches(ctx: Context) -> str:
    if ctx.ask("Pay?", answer=bool):
        return "yes"
    return "no"


async def throws_it_away(ctx: Context) -> str:
    ctx.sleep("2 days")
    return "done"


async def returns_it(ctx: Context) -> Any:
    return ctx.call(len, "abc")


async def keeps_it_under_its_name(ctx: Context) -> str:
    asked = ctx.ask("Pay?")
    asked = asked if ctx.attempt else ctx.state.get("other")
    return "done"


FORGOTTEN = {
    uses_it_at_once: (1, "ask"),
    uses_a_name: (1, "ask"),
    uses_it_as_a_number: (1, "ask"),
    branches: (1, "ask"),
    throws_it_away: (1, "sleep"),
    returns_it: (1, "call"),
    keeps_it_under_its_name: (1, "ask"),
}


async def hands_all_on(ctx: Context) -> Any:
    first = ctx.ask("First?")
    one, two = await asyncio.gather(first, ctx.ask("Second?"))
    task = asyncio.create_task(ctx.call(len, "abc"))
    more = [ctx.call(len, text) for text in (one, two)]
    more.append(ctx.call(len, "x"))
    chosen = ctx.ask("Third?") if one else ctx.ask("Fourth?")
    other = chosen
    chosen = other if two else chosen
    pending = {"a": ctx.call(len, "a")}
    await asyncio.gather(*more, *pending.values(), *(ctx.call(len, text) for text in "ab"))

    async def later() -> int:
        return await ctx.call(len, "z")

    def made() -> Any:
        return ctx.call(len, "y")

    async with asyncio.timeout(3):
        await made()
    return [await task, await chosen, await later()]


@pytest.mark.parametrize("step", FORGOTTEN, ids=lambda one: one.__name__)
def test_check_names_the_line_of_a_forgotten_await(step: Any) -> None:
    line, name = FORGOTTEN[step]
    ((problem, place),) = await_flaws(flow(step).graph)
    assert problem == f"step 'go' does not await ctx.{name}(...): write 'await ctx.{name}(...)'"
    assert place == f"{__file__}:{step.__code__.co_firstlineno + line}"


def test_check_finds_nothing_in_what_is_awaited_elsewhere() -> None:
    assert list(await_flaws(flow(hands_all_on).graph)) == []


def test_check_names_a_plain_function_that_asks() -> None:
    def go(ctx: Context) -> Any:
        return ctx.ask("Pay?")

    ((problem, _),) = await_flaws(flow(go).graph)
    assert problem == "step 'go' is a plain function: make it 'async def' to ask"


@pytest.mark.parametrize("step", [uses_it_at_once, uses_a_name, uses_it_as_a_number, branches])
async def test_a_forgotten_await_fails_with_the_remedy_and_asks_no_one(step: Step) -> None:
    outcome = await flow(step).run(None)
    assert "write 'await ctx.ask(...)'" in failed(outcome)
    assert outcome.checkpoint is not None
    assert outcome.checkpoint.requests == ()


async def test_questions_that_are_awaited_together_are_open_together() -> None:
    async def go(ctx: Context) -> Any:
        first, second = ctx.ask("First?"), ctx.ask("Second?")
        return await asyncio.gather(second, first)

    outcome = await flow(go).run(None)
    assert isinstance(outcome, Waiting)
    assert [request.card["subject"] for request in outcome.requests] == ["First?", "Second?"]


@pytest.mark.parametrize("forgets", ["ask", "call", "sleep", "receive", "checkpoint"])
async def test_a_step_that_forgets_to_await_fails_and_says_so(forgets: str):
    wf = Workflow("forgets")
    args = {"ask": ("?",), "call": (len, "abc"), "sleep": (5,), "receive": ("letter",), "checkpoint": ("here",)}

    @wf.step(start=True)
    async def go(ctx: Context) -> str:
        getattr(ctx, forgets)(*args[forgets])
        return "done"

    assert f"write 'await ctx.{forgets}(...)'" in failed(await wf.run(None))


async def test_a_task_that_a_step_leaves_behind_is_not_called_forgotten():
    wf = Workflow("leaves")

    @wf.step(start=True)
    async def go(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.sleep(60)))
        return "done"

    tasks: list[Any] = []
    assert finished(await wf.run(None)) == "done"
