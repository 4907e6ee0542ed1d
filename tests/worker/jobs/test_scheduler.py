"""Schedules beside a worker: their runs start at their moment, also those that a worker missed, and idling is cheap."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Run, Schedule
from checkpoints.records import Json, Phase
from checkpoints.storage import Recorder
from tests.worker.conftest import until
from tests.worker.script import checkpoint_after, moved
from wfdash.access.viewer import Viewer
from wfdash.contract import Finished, Outcome, RunInput
from wfdash.worker import sweeps
from wfdash.worker.process import EmbeddedWorker

Start = Callable[..., EmbeddedWorker]
SECOND = timedelta(seconds=1)


async def end(given: RunInput, recorder: Recorder) -> Outcome:
    last = checkpoint_after(given, "done")
    await recorder.commit(moved(last, "run.completed", Phase.COMPLETED, output="done"))
    return Finished(output="done", checkpoint=last)


@pytest.fixture
def plan(otto: Viewer, define) -> Callable[..., Schedule]:
    define(end)

    def make(next_at: datetime, message: Json = None) -> Schedule:
        now = timezone.now()
        return Schedule.objects.create(
            id=ids.new_token(),
            workflow="script",
            name=f"s{Schedule.objects.count()}",
            cron="* * * * *",
            message=message,
            next_at=next_at,
            owner=otto.user,
            created=now,
            updated=now,
        )

    return make


@pytest.mark.alone
def test_a_run_starts_within_half_a_second_of_its_time(plan, start_worker: Start) -> None:
    start_worker()
    due = timezone.now() + 2 * SECOND
    schedule = plan(due)
    until(lambda: Run.objects.filter(phase="completed").exists())
    schedule.refresh_from_db()
    late = (Run.objects.get().created - due).total_seconds()
    assert 0 <= late < 0.5, late
    assert schedule.last_run == Run.objects.get().pk


def test_what_came_while_no_worker_ran_is_started_once_one_does(plan, start_worker: Start) -> None:
    for n in range(5):
        plan(datetime(2026, 1, n + 1, tzinfo=UTC))
    start_worker()
    until(lambda: Run.objects.filter(phase="completed").count() >= 5)
    assert all(row.next_at > timezone.now() - SECOND for row in Schedule.objects.all())
    assert {row.last_run for row in Schedule.objects.all()} <= {run.pk for run in Run.objects.all()}


def test_the_next_sweep_comes_when_something_is_due(plan, monkeypatch) -> None:
    monkeypatch.setattr(sweeps, "SCHEDULE_SECONDS", 600)
    assert sweeps.start_scheduled() == 600
    plan(timezone.now() + 300 * SECOND)
    assert 0 < sweeps.start_scheduled() <= 300


def test_what_cannot_be_done_now_is_not_tried_without_a_pause(plan, monkeypatch) -> None:
    plan(timezone.now() - SECOND)
    monkeypatch.setattr("wfdash.actions.schedules.fire_schedules", lambda: 0)
    assert sweeps.start_scheduled() == sweeps.SCHEDULE_SECONDS


def test_a_sweep_without_schedules_asks_once(db, django_assert_num_queries) -> None:
    connection.ensure_connection()
    with django_assert_num_queries(1):
        sweeps.start_scheduled()
