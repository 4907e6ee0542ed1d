"""A workflow that is bound to a storage makes the same calls without naming it."""

from __future__ import annotations

import pytest

from checkpoints.manager import CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Phase
from wfdash.contract import Waiting
from wfdash.workflow import Approval, Context, Workflow
from wfdash.workflow.errors import InvalidCall

orders = Workflow("orders")


@orders.step(start=True)
async def review(n: int, ctx: Context) -> str:
    decision = await ctx.ask(Approval(subject=f"Pay {n}?"))
    return decision.action


async def test_runs_are_started_resumed_and_listed() -> None:
    async with MemoryStorage() as storage:
        bound = orders.bind(storage)
        waiting = await bound.start(1)
        await bound.start(2, run_id="second")
        assert isinstance(waiting, Waiting)
        run = waiting.checkpoint.run
        assert isinstance(await bound.resume(run), Waiting)
        finished = await bound.resume(run, answers=waiting.answer("approve"))
        assert finished.result() == "approve"
        assert {info.id for info in await bound.runs()} == {run, "second"}
        assert [info.id for info in await bound.runs(phase=Phase.WAITING)] == ["second"]
        assert len(await orders.bind(CheckpointManager(storage)).runs()) == 2


async def test_a_storage_without_a_list_says_so() -> None:
    with pytest.raises(InvalidCall, match="keeps no list of runs"):
        await orders.bind(object()).runs()
