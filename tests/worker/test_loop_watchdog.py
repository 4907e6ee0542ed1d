from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest

from checkpoints.database.storage import DatabaseStorage
from checkpoints.events import EventKind
from checkpoints.models import Event
from checkpoints.records import Commit
from tests.worker.conftest import reaches, until
from tests.workflow.world import flow
from wfdash.actions.runs.lifecycle import start_run
from wfdash.web.pages.ui.event_text import describe
from wfdash.worker import loop_watchdog
from wfdash.workflow import Context
from wfdash.workflow.runtime.watching import BlockingStep

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    init = loop_watchdog.Watchdog.__init__
    monkeypatch.setattr(init, "__kwdefaults__", {**init.__kwdefaults__, "limit": 0.4})
    monkeypatch.setattr(loop_watchdog, "LOOK_GAP", 0.05)


def told_of(run) -> list[Event]:
    return list(Event.objects.filter(run=run, kind__startswith="step.block").order_by("seq"))


def compute_until(told: threading.Event) -> None:
    told.wait(60)


def test_a_step_that_blocks_the_loop_is_named_while_it_does_and_when_it_ends(otto, serve, start_worker, caplog) -> None:
    seen = threading.Event()

    async def settle(number: int, ctx: Context) -> int:
        await asyncio.gather(look_up(), asyncio.sleep(0))
        return number

    async def look_up() -> None:
        compute_until(seen)

    serve(flow(settle, name="pay"))
    start_worker()
    run = start_run(otto, "pay", 1)
    until(lambda: told_of(run))
    assert not reaches(run, "completed")(), "it must be told while it goes on"
    seen.set()
    until(lambda: len(told_of(run)) == 2)
    until(reaches(run, "completed"))
    blocking, blocked = told_of(run)
    assert (blocking.kind, blocked.kind, blocked.step) == ("step.blocking", "step.blocked", "settle")
    assert blocked.data["where"].startswith("test_loop_watchdog.py:")
    assert 0.4 <= blocked.data["seconds"] < 60
    assert "compute_until" in blocking.data["stack"]
    assert "Settle blocked the worker for " in describe("step.blocked", "settle", blocked.data)
    assert f"Step settle of run {run.id}" in caplog.text
    assert "make it a plain def" in caplog.text


def test_what_yields_or_works_in_a_thread_blocks_nothing(otto, serve, start_worker) -> None:
    async def wait(number: int) -> int:
        await asyncio.sleep(0.8)
        return number

    def compute(number: int) -> int:
        time.sleep(0.8)
        return number

    serve(flow(wait, compute, name="calm"))
    start_worker()
    run = start_run(otto, "calm", 1)
    until(reaches(run, "completed"))
    assert told_of(run) == []


def test_log_and_run_tell_of_the_same_step_only_so_often(otto, serve, start_worker, caplog, monkeypatch) -> None:
    monkeypatch.setattr(loop_watchdog, "MAX_REPORTS_PER_STEP", 1)

    async def again(number: int) -> int:
        for _ in range(2):
            time.sleep(0.8)  # noqa: ASYNC251 (the point of it)
            await asyncio.sleep(0.3)
        return number

    serve(flow(again, name="often"))
    start_worker()
    run = start_run(otto, "often", 1)
    until(reaches(run, "completed"))
    until(lambda: len(told_of(run)) == 2)
    assert caplog.text.count(f"of run {run.id} blocks the event loop") == 1
    assert caplog.text.count(f"of run {run.id} blocked it for") == 1


@pytest.mark.parametrize(("run", "remedy"), [("r1", "make it a plain def"), ("", "too little processor time")])
def test_a_line_of_the_log_says_how_many_were_left_out(run: str, remedy: str, caplog, monkeypatch) -> None:
    watchdog = loop_watchdog.Watchdog(Unused(), lambda: 1)
    busy = BlockingStep(run=run, step="spin" if run else "", where="f.py:1")

    def report() -> None:
        for kind in (EventKind.STEP_BLOCKING, EventKind.STEP_BLOCKED):
            watchdog._log(busy, kind, 1.0, always=False)

    for _ in range(3):
        report()
    assert len(caplog.records) == 2
    monkeypatch.setattr(loop_watchdog, "QUIET_SECONDS", 0.0)
    report()
    assert "(2 more times since the last line)" in caplog.messages[2]
    assert all(remedy in line for line in caplog.messages)
    assert len(caplog.records) == 4


async def test_it_rests_while_no_run_is_driven(caplog) -> None:
    driving = 0
    watchdog = loop_watchdog.Watchdog(Unused(), lambda: driving)
    watchdog.start()
    try:
        time.sleep(0.6)  # noqa: ASYNC251 (the point of it)
        assert caplog.text == ""
        driving = 1
        watchdog.watch()
        time.sleep(0.6)  # noqa: ASYNC251
        await asyncio.sleep(0.1)
        assert "No step, but wfdash or a library, blocked it for" in caplog.text
        driving = 0
        await asyncio.sleep(0.15)
        caplog.clear()
        time.sleep(0.6)  # noqa: ASYNC251
        assert caplog.text == ""
    finally:
        await asyncio.to_thread(watchdog.close)


class Unused:
    async def commit(self, commit: Commit) -> int:
        raise AssertionError("no run is driven")


@pytest.fixture
def hasty(monkeypatch) -> None:
    monkeypatch.setattr(loop_watchdog, "LONG_SECONDS", 0.3)
    monkeypatch.setattr(loop_watchdog, "COMPUTED_SECONDS", 0.2)


def stop_before(run, worker: str, *, ended: bool = False) -> None:
    """Write what another process's watchdog writes of a step that blocks it. ``ended``: it saw the step's end."""
    step = {"activation": Event.objects.get(run=run, kind="step.started").data["activation"], "worker": worker}
    facts = {**step, "function": "f", "where": "f.py:1", "seconds": 90.0}
    kinds = [EventKind.STEP_BLOCKING, *([EventKind.STEP_BLOCKED] if ended else [])]
    events = tuple(kind.draft("spin", **facts) for kind in kinds)
    asyncio.run(commit_events(Commit(run=run.id, events=events)))


async def commit_events(commit: Commit) -> None:
    storage = DatabaseStorage()
    try:
        await storage.commit(commit)
    finally:
        await storage.aclose()


@pytest.fixture
def spinning(serve) -> SimpleNamespace:
    """A workflow whose step computes on the loop for as long as the test does not say that it may end."""
    state = SimpleNamespace(began=threading.Event(), go=threading.Event(), end=threading.Event())

    async def spin(number: int) -> int:
        state.began.set()
        await asyncio.to_thread(state.go.wait, 60)
        while number and not state.end.is_set():
            pass
        return number

    serve(flow(spin, name="spin"))
    yield state
    state.go.set()
    state.end.set()


def test_a_step_that_stops_a_second_process_is_put_aside_and_others_continue(
    otto, spinning, start_worker, hasty, caplog
) -> None:
    start_worker()
    run = start_run(otto, "spin", 1)
    assert spinning.began.wait(60)
    stop_before(run, "gone")
    spinning.go.set()
    until(reaches(run, "failed"))
    run.refresh_from_db()
    assert run.error["type"] == "StepBlocksWorkers"
    assert "make it a plain def" in run.error["message"].lower()
    assert "then retry the run" in run.error["message"]
    innocent = start_run(otto, "spin", 0)
    until(reaches(innocent, "completed"))
    assert told_of(innocent) == []
    assert f"Run {run.id} is failed: its step spin stopped this process and one before" in caplog.text


@pytest.mark.parametrize("before", ["no process", "one whose step ended"])
def test_a_step_that_stops_one_process_is_noted_and_may_end(otto, spinning, start_worker, hasty, before: str) -> None:
    start_worker()
    run = start_run(otto, "spin", 1)
    assert spinning.began.wait(60)
    if before != "no process":
        stop_before(run, "gone", ended=True)
    known = len(told_of(run))
    spinning.go.set()
    until(lambda: len(told_of(run)) == known + 2)
    blocking = told_of(run)[-1]
    assert (blocking.data["seconds"] >= 0.3, bool(blocking.data["worker"])) == (True, True)
    assert loop_watchdog.stopped_by(of_event(run, blocking)) == {blocking.data["worker"]}
    spinning.end.set()
    until(reaches(run, "completed"))
    until(lambda: loop_watchdog.stopped_by(of_event(run, blocking)) == set())


def of_event(run, event: Event) -> BlockingStep:
    return BlockingStep(run=run.id, step="spin", activation=event.data["activation"])


def test_a_step_that_gets_no_time_to_compute_is_innocent(otto, serve, start_worker, hasty) -> None:
    seen, began = threading.Event(), threading.Event()

    async def spin(number: int) -> int:
        began.set()
        await asyncio.sleep(0.5)
        seen.wait(60)
        return number

    serve(flow(spin, name="slow"))
    start_worker()
    run = start_run(otto, "slow", 1)
    assert began.wait(60)
    stop_before(run, "gone")
    until(lambda: len(told_of(run)) == 2)
    time.sleep(1.0)
    seen.set()
    until(reaches(run, "completed"))
    until(lambda: len(told_of(run)) == 3)
