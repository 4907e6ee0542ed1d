"""Replay: a step that runs again must get its own answers and results back, and repeat nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.workflow.world import ListRecorder, answered, finished, handed_over
from wfdash.workflow import Context, Question, Waiting, Workflow


async def test_children_of_a_step_get_their_own_results_whatever_order_people_answer_in():
    flow = Workflow("lookups")
    looked: list[str] = []

    async def look(name: str) -> str:
        looked.append(name)
        return f"{name}!"

    @flow.step(start=True)
    async def research(ctx: Context) -> list[str]:
        async def one(name: str) -> str:
            await ctx.ask(Question(subject=name))
            return str(await ctx.call(look, name))

        return list(await asyncio.gather(one("a"), one("b")))

    outcome = await flow.run(None)
    for name in ("b", "a"):
        assert isinstance(outcome, Waiting)
        key = next(r.key for r in outcome.requests if r.card["subject"] == name)
        outcome = await flow.run(answers={key: "yes"}, checkpoint=handed_over(outcome.checkpoint))
    assert finished(outcome) == ["a!", "b!"]
    assert sorted(looked) == ["a", "b"]


async def test_children_of_a_step_get_the_answers_to_their_own_questions():
    flow = Workflow("approvals")

    async def load(name: str, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return name

    @flow.step(start=True)
    async def research(ctx: Context) -> list[str]:
        async def one(name: str, seconds: float) -> str:
            loaded = await ctx.call(load, name, seconds)
            return f"{loaded}: {await ctx.ask(Question(subject=name))}"

        return list(await asyncio.gather(one("slow", 0.05), one("quick", 0)))

    outcome = await flow.run(None)
    assert isinstance(outcome, Waiting)
    outcome = await answered(flow, outcome, lambda request: f"for {request.card['subject']}")
    assert finished(outcome) == ["slow: for slow", "quick: for quick"]


class Declined(Exception):
    """The bank says no."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code, why)
        self.code = code


async def test_a_call_that_raised_and_was_handled_raises_again_instead_of_being_made_again():
    for once in (False, True):
        flow = Workflow("charging")
        charged: list[int] = []

        async def charge(amount: int, charged: list[int] = charged) -> None:
            charged.append(amount)
            raise Declined(51, "no money")

        @flow.step(start=True)
        async def pay(ctx: Context, once: bool = once, charge: Any = charge) -> str:
            try:
                await ctx.call(charge, 5, once=once, name="charge")
            except Declined as declined:
                return f"{declined.code} {await ctx.ask(Question(subject='Declined. What now?'))}"
            return "paid"

        outcome = await flow.run(None)
        assert isinstance(outcome, Waiting)
        assert len(outcome.requests) == 1
        assert finished(await answered(flow, outcome, "give up")) == "51 give up"
        assert charged == [5]


async def test_parking_a_step_runs_no_effect_of_its_finally():
    flow = Workflow("cleaning")
    cleaned: list[int] = []

    @flow.step(start=True)
    async def work(ctx: Context) -> str:
        try:
            return str(await ctx.ask("Ready?"))
        finally:
            await ctx.call(cleaned.append, 1, name="clean")

    outcome = await flow.run(None)
    assert cleaned == []
    assert finished(await answered(flow, outcome, "yes")) == "yes"
    assert cleaned == [1]


async def test_a_step_that_does_not_let_itself_be_cancelled_cannot_hold_the_run():
    flow = Workflow("stubborn")
    release = asyncio.Event()

    @flow.step(start=True)
    async def hold(ctx: Context) -> str:
        while not release.is_set():
            try:
                await ctx.ask("Ready?")
            except asyncio.CancelledError:
                await release.wait()
        return "over"

    driving = asyncio.create_task(flow.run(None, storage=ListRecorder()))
    done, _ = await asyncio.wait([driving], timeout=4)
    release.set()
    assert done, "the drive hangs"
    assert isinstance(await driving, Waiting)


async def test_calls_of_two_branches_from_one_checkpoint_have_keys_of_their_own():
    flow = Workflow("branches")
    keys: list[str] = []

    @flow.step(start=True)
    async def decide(ctx: Context) -> str:
        return str(await ctx.ask("pay or refund?"))

    @flow.step(after=decide, when=lambda way: way == "pay")
    async def pay(way: str, ctx: Context) -> None:
        await ctx.call(keys.append, ctx.effect_key, once=True, name="transfer")

    @flow.step(after=decide, when=lambda way: way == "refund")
    async def refund(way: str, ctx: Context) -> None:
        await ctx.call(keys.append, ctx.effect_key, once=True, name="transfer")

    parked = await flow.run(None)
    for way in ("pay", "refund", "pay"):
        await answered(flow, parked, way)
    assert keys[0] == keys[2] != keys[1]
