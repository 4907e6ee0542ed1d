"""The leading worker looks by one statement and does what that finds, each job beside the others."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from checkpoints.models import Event, Run, TallyMark
from tests.people import make_run
from wfdash.worker import sweeps
from wfdash.worker import sweeps as due_work
from wfdash.worker.db_thread import DbThread
from wfdash.worker.sweeps import DueWork, Job, sweep_until

NOW = timezone.now()


def sweep_with(
    monkeypatch: pytest.MonkeyPatch, looks: Callable[[], DueWork], *jobs: Job, until: Callable[[], object]
) -> None:
    """Sweep over what these looks find until a condition holds."""
    monkeypatch.setattr(sweeps, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(sweeps, "all_jobs", lambda: list(jobs))
    monkeypatch.setattr(due_work, "look_for_work", looks)

    async def serve() -> None:
        thread, stopping = DbThread("test"), asyncio.Event()
        sweeping = asyncio.ensure_future(sweep_until(stopping, thread))
        while not until():
            await asyncio.sleep(0.002)
        stopping.set()
        await sweeping
        await thread.aclose()

    asyncio.run(asyncio.wait_for(serve(), 30))


@pytest.mark.django_db
def test_a_look_is_one_statement(django_assert_num_queries) -> None:
    due_work.look_for_work()
    with django_assert_num_queries(1):
        found = due_work.look_for_work()
    assert not found.first
    assert abs((found.now - timezone.now()).total_seconds()) < 5


@pytest.mark.django_db
def test_it_finds_what_there_is_of_each_kind_and_when() -> None:
    run = make_run()
    Run.objects.filter(pk=run.pk).update(phase="failed", listed=False, ending="otto")
    event = Event.objects.create(run=run, seq=9, kind="run.started", data={}, at=NOW)
    found = due_work.look_for_work()
    assert all(found.has(kind) for kind in ("failures", "unlisted", "ending"))
    assert not found.has("alarms", "schedules", "bulks")
    assert found.has_events_after("counted")
    TallyMark.objects.create(pk=1, event=event.pk)
    assert not due_work.look_for_work().has_events_after("counted")


def test_what_has_a_time_is_due_when_that_comes() -> None:
    found = DueWork(NOW, {"alarms": NOW, "answers": NOW + timedelta(seconds=0.5), "event": 7})
    assert (found.has("alarms"), found.has("answers"), found.seconds_to_next()) == (True, False, 0.5)
    assert DueWork(NOW, {"alarms": NOW}).seconds_to_next() == math.inf


def test_a_job_is_done_when_it_is_due_and_no_sooner_than_every_so_often(monkeypatch) -> None:
    done: list[str] = []

    def do(name: str) -> Callable[[], float]:
        return lambda: done.append(name) or math.inf  # type: ignore[func-returns-value]

    jobs = [
        Job(name="due", do=do("due"), is_due=lambda found: found.has("alarms")),
        Job(name="not due", do=do("not due"), is_due=lambda found: found.has("answers")),
        Job(name="seldom", do=do("seldom"), every=60),
        Job(name="later", do=do("later"), first=60),
    ]
    sweep_with(monkeypatch, lambda: DueWork(NOW, {"alarms": NOW}), *jobs, until=lambda: done.count("due") > 2)
    assert set(done) == {"due", "seldom"}
    assert done.count("seldom") == 1


def test_one_that_takes_long_or_fails_does_not_keep_the_others_waiting(monkeypatch, caplog) -> None:
    released, done = threading.Event(), list[str]()

    def fail() -> float:
        raise ValueError("no such row")

    def last() -> float:
        done.append("again")
        if len(done) == 3:
            released.set()
        return 0.0 if len(done) < 3 else math.inf

    jobs = [
        Job(name="long", do=lambda: released.wait(30) and math.inf, every=60),
        Job(name="broken", do=fail, every=60),
        Job(name="quick", do=last, every=60),
    ]
    sweep_with(monkeypatch, lambda: DueWork(NOW, {}), *jobs, until=lambda: len(done) == 3)
    assert "Could not do what is due (broken)" in caplog.text


def test_an_outage_is_one_line_and_the_next_look_does_what_is_due(monkeypatch, caplog) -> None:
    caplog.set_level("INFO", logger="wfdash")
    looks, done = itertools.count(), list[str]()

    def look() -> DueWork:
        if next(looks) < 6:
            raise OperationalError("away")
        return DueWork(NOW, {})

    def do() -> float:
        done.append("job")
        return math.inf

    sweep_with(monkeypatch, look, Job(name="job", do=do), until=lambda: done)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_job_that_rests_is_not_begun_again_once_its_worker_was_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    done: list[float] = []

    async def serve() -> None:
        job = sweeps._JobThread(Job(name="rests", do=lambda: done.append(1.0) or 0.02), asyncio.Event())
        job.consider(DueWork.__new__(DueWork))
        while not done:
            await asyncio.sleep(0.001)
        await job.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(serve())
    assert done == [1.0]
    # Its thread has ended: a job that begins fails.
    assert caplog.messages == []
