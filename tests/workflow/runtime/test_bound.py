"""A workflow that is bound to a storage makes the same calls without naming it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from checkpoints.manager import CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.records import Phase
from wfdash.contract import Waiting
from wfdash.workflow import Approval, Context, Workflow
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.drive import Timers

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


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_soonest_timer_comes_first() -> None:
    timers = Timers()
    assert not timers
    for minutes in (5, 1, 3):
        timers.add(NOON + timedelta(minutes=minutes))
    assert timers
    assert timers[0] == NOON + timedelta(minutes=1)
    assert timers.seconds_left(NOON) == 60


def test_timers_that_have_passed_are_removed_and_said_once() -> None:
    timers = Timers()
    for minutes in (1, 3, 5):
        timers.add(NOON + timedelta(minutes=minutes))
    assert not timers.clear_passed(NOON)
    assert timers.clear_passed(NOON + timedelta(minutes=3))
    assert timers[0] == NOON + timedelta(minutes=5)
    assert not timers.clear_passed(NOON + timedelta(minutes=3))
