"""Branches of a step that begin in another order when it runs again get each its own results again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.workflow.world import ListRecorder, PowerCut, flow
from wfdash.contract import Finished, Waiting
from wfdash.workflow import Context, Workflow

PAUSES = [(0.0, 0.02, 0.04), (0.04, 0.02, 0.0)]
"""Seconds before each branch begins, in one process and the next."""


def beside(calls: list[Any], pauses: tuple[float, ...], once: bool = False) -> Workflow:
    async def fetch(number: int, note: str) -> str:
        calls.append(number)
        return f"{note} {number}"

    async def step(n: int, ctx: Context) -> Any:
        async def branch(number: int) -> str:
            await asyncio.sleep(pauses[number])
            found = await ctx.call(fetch, number, note="found", once=once)
            return found + await ctx.ask(f"Is {found} right?")

        return await asyncio.gather(*(branch(number) for number in range(len(pauses))))

    return flow(step, name="beside", people=True)


@pytest.mark.parametrize("once", [False, True])
async def test_recorded_calls_of_branches_are_found_again_by_their_arguments(once: bool):
    calls: list[Any] = []
    first = await beside(calls, PAUSES[0], once).run(1)
    assert isinstance(first, Waiting), first
    words = {request.key: request.card["subject"].split()[2] for request in first.requests}
    done = await beside(calls, PAUSES[1], once).run(answers=words, checkpoint=first.checkpoint)
    assert isinstance(done, Finished), done
    assert done.output == ["found 00", "found 11", "found 22"]
    assert calls == [0, 1, 2]


async def test_a_branch_that_had_not_begun_at_a_kill_does_not_get_the_result_of_another():
    for commits in range(1, 12):
        calls: list[Any] = []
        recorder = ListRecorder(dies_after=commits)
        try:
            first = await beside(calls, PAUSES[0]).run(1, storage=recorder, run_id="r")
        except PowerCut:
            first = None
        if first is not None:
            break
        before = len(calls)
        again = await beside(calls, PAUSES[1]).run(checkpoint=recorder.latest)
        assert isinstance(again, Waiting), again
        words = {request.key: request.card["subject"].split()[2] for request in again.requests}
        done = await beside(calls, PAUSES[0]).run(answers=words, checkpoint=again.checkpoint)
        assert done.output == ["found 00", "found 11", "found 22"], commits
        assert len(calls) <= before + 3, calls
    assert commits > 1
