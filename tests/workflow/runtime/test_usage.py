"""What models use: counted as often as it was paid for, however often a step runs again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.workflow.world import ListRecorder, PowerCut, failed, finished, flow
from wfdash.workflow import Context, Retry, Waiting


def used(*recorders: ListRecorder) -> list[int]:
    """Return the tokens of every usage, in order."""
    events = [event for recorder in recorders for commit in recorder.commits for event in commit.events]
    return [event.data["input_tokens"] for event in events if event.kind == "usage"]


async def test_usage_counts_once_however_often_the_step_runs_again_and_is_cut():
    async def go(n: int, ctx: Context) -> str:
        await ctx.call(lambda: ctx.usage(model="m", input=1), name="model")
        ctx.usage(model="m", input=10)
        await asyncio.to_thread(ctx.usage, model="m", input=20)
        said = await ctx.ask("go on?")
        ctx.usage(model="m", input=30)
        return str(said)

    wf = flow(go)
    for cut in range(1, 5):
        first, second, third = ListRecorder(dies_after=cut), ListRecorder(), ListRecorder()
        with contextlib.suppress(PowerCut):
            await wf.run(1, storage=first)
        waiting = await wf.run(checkpoint=first.latest, storage=second)
        assert isinstance(waiting, Waiting)
        answers = {request.key: "yes" for request in waiting.requests}
        assert finished(await wf.run(answers=answers, checkpoint=waiting.checkpoint, storage=third)) == "yes"
        assert sorted(used(first, second, third)) == [1, 10, 20, 30]


async def test_another_attempt_counts_again_but_not_behind_a_call_whose_result_it_is_given():
    calls: list[str] = []

    def model(name: str) -> str:
        calls.append(name)
        if calls.count("second") == 1 and name == "second":
            raise ConnectionError
        return name

    recorder = ListRecorder()

    async def go(n: int, ctx: Context) -> str:
        ctx.usage(model="unrecorded", input=1)
        await ctx.call(model, "first")
        ctx.usage(model="m", input=10)
        await ctx.call(model, "second")
        ctx.usage(model="m", input=20)
        return "done"

    assert finished(await flow(go, retry=Retry(attempts=2, delay=0)).run(1, storage=recorder)) == "done"
    assert used(recorder) == [1, 10, 1, 20]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"model": ""}, "model=''"),
        ({"model": "m", "input": -1}, "input=-1: give the number of tokens, a whole number from 0"),
        ({"model": "m", "output": True}, "output=True"),
        ({"model": "m", "cost": float("nan")}, "cost=nan: give an amount from 0 to 10,000"),
        ({"model": "m", "cost": "much"}, "cost='much'"),
        ({"model": "m", "input": 10**5_000}, "input: too large: give"),
        ({"model": "m", "cost": 10**5_000}, "cost: too large: give"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, Any], named: str):
    async def go(n: int, ctx: Context) -> None:
        ctx.usage(**given)

    assert f"InvalidCall: ctx.usage: {named}" in failed(await flow(go).run(1))
