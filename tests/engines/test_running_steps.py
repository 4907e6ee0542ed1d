"""Events of steps that an engine learns of while they run: their times, and how few commits they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RunId, WorkflowId, new_run_id
from checkpoints.memory import MemoryStorage
from checkpoints.recorder import BoundRecorder
from checkpoints.records import Commit, Phase, Standing
from tests.conformance.worlds import checkpoint
from tests.workflow.world import ListRecorder, PowerCut
from wfdash.engines.running_steps import RunningSteps

RUN = RunId("r")
END = Commit(run=RUN, events=(EventKind.RUN_COMPLETED.draft(output=1),), standing=Standing(phase=Phase.COMPLETED))


Pass = Callable[[float], Awaitable[None]]


class Timed(ListRecorder):
    """By a clock that the test moves, as its event loop."""

    time = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)


@pytest.fixture
def recorder() -> Timed:
    return Timed()


@pytest.fixture
async def passes(recorder: Timed, monkeypatch: pytest.MonkeyPatch) -> Pass:
    """Return what lets seconds pass: nothing else does."""
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: recorder.time)

    async def passing(seconds: float) -> None:
        recorder.time += seconds
        for _ in range(5):
            await asyncio.sleep(0)

    return passing


@pytest.mark.alone
async def test_a_step_of_150_ms_is_stored_as_running_within_300_ms_and_lasts_150_ms():
    storage, run = MemoryStorage(), new_run_id()
    await storage.save(checkpoint(run, workflow=WorkflowId("w")))
    async with RunningSteps(BoundRecorder(storage, run), run) as steps:
        steps.started("slow-1", "slow")
        await asyncio.sleep(0.14)
        assert [event.kind for event in await storage.read_events(run)] == ["step.started"]
        await asyncio.sleep(0.01)
        steps.ended("slow-1", output=7)
        await steps.commit(Commit(run=run))
    started, finished = await storage.read_events(run)
    assert timedelta(milliseconds=140) < finished.at - started.at < timedelta(milliseconds=180)
    await storage.aclose()


async def test_the_start_of_a_slow_step_is_committed_while_it_runs(recorder: Timed, passes: Pass):
    async with RunningSteps(recorder, RUN) as steps:
        steps.started("slow-1", "slow")
        await passes(0.099)
        assert recorder.commits == []
        await passes(0.002)
        assert recorder.kinds == ["step.started"]
        assert recorder.commits[0].checkpoint is None
        await passes(0.049)
        steps.ended("slow-1", output=7)
        await steps.commit(END)
    started, finished = recorder.commits[0].events[0], recorder.commits[1].events[0]
    assert finished.at - started.at == timedelta(milliseconds=150)
    assert finished.data == {"activation": "slow-1", "ms": 150.0, "output": 7}
    assert finished.step == "slow"


async def test_fast_steps_cost_no_commit_of_their_own(recorder: Timed, passes: Pass):
    async with RunningSteps(recorder, RUN) as steps:
        for number in range(20):
            steps.started(f"fast-{number}", "fast", item=number)
            await passes(0.09)
            steps.ended(f"fast-{number}")
            await steps.commit(Commit(run=RUN))
        await steps.commit(END)
    assert len(recorder.commits) == 21
    assert recorder.kinds == ["step.started", "step.finished"] * 20 + ["run.completed"]
    assert recorder.commits[3].events[1].data["item"] == 3


async def test_a_step_that_just_ended_waits_for_the_commit_of_its_engine(recorder: Timed, passes: Pass):
    async with RunningSteps(recorder, RUN) as steps:
        steps.started("a", "a")
        await passes(0.09)
        steps.ended("a")
        await passes(0.09)
        await steps.commit(END)
    assert len(recorder.commits) == 1


async def test_steps_that_run_at_the_same_time_share_one_commit(recorder: Timed, passes: Pass):
    async with RunningSteps(recorder, RUN) as steps:
        for number in range(50):
            steps.started(f"{number}", "one")
            await passes(0.001)
        await passes(0.1)
        assert [len(commit.events) for commit in recorder.commits] == [50]
        assert len(steps.running) == 50


async def test_events_are_in_the_order_of_their_times_and_all_have_one(recorder: Timed):
    async with RunningSteps(recorder, RUN) as steps:
        now = recorder.now()
        steps.started("late", "late", at=now - timedelta(seconds=1))
        steps.started("early", "early", at=now - timedelta(seconds=2))
        steps.ended("early", EventKind.STEP_FAILED, error="no")
        steps.ended("elsewhere", step="started before a restart")
        await steps.commit(END)
    (commit,) = recorder.commits
    assert [event.step for event in commit.events] == ["early", "late", "early", "started before a restart", None]
    times = [event.at for event in commit.events]
    assert times == sorted(times)
    assert "ms" not in commit.events[3].data


async def test_what_was_noted_is_kept_when_a_commit_is_refused():
    recorder = ListRecorder(dies_after=0)
    async with RunningSteps(recorder, RUN) as steps:
        steps.started("a", "a")
        with pytest.raises(PowerCut):
            await steps.commit(END)
        recorder.dies_after = None
        await steps.commit(END)
    assert recorder.kinds == ["step.started", "run.completed"]


class Refusing(ListRecorder):
    async def commit(self, commit: Commit) -> None:
        raise ClaimLost(run=RUN)


async def test_a_drive_whose_claim_is_lost_ends_while_its_step_runs():
    ran_to_its_end = False
    with pytest.raises(ClaimLost):
        async with asyncio.timeout(5), RunningSteps(Refusing(), RUN) as steps:
            steps.started("a", "a")
            await asyncio.sleep(30)
            ran_to_its_end = True
    assert not ran_to_its_end
    assert asyncio.current_task().cancelling() == 0


async def test_a_drive_that_swallows_its_cancellation_ends_with_the_lost_claim_all_the_same():
    with pytest.raises(ClaimLost):
        async with RunningSteps(Refusing(), RUN) as steps:
            steps.started("a", "a")
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                pass


async def test_a_cancellation_from_outside_stays_one():
    async def drive() -> None:
        async with RunningSteps(ListRecorder(), RUN) as steps:
            steps.started("a", "a")
            await asyncio.sleep(30)

    task = asyncio.create_task(drive())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_after_the_last_commit_nothing_is_committed(recorder: Timed, passes: Pass):
    async with RunningSteps(recorder, RUN) as steps:
        await steps.commit(END)
        steps.started("a", "a")
        await passes(0.2)
    assert len(recorder.commits) == 1
