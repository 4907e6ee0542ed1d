from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.database.clock import database_now
from checkpoints.database.living_workers import HEARTBEAT_TIMEOUT
from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Event, Tally, TallyMark, WorkerBeat
from tests.people import make_people, make_run, viewer
from tests.worker.conftest import until
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.queries.statistics.durations import ALL_TIME, Measure
from wfdash.queries.statistics.gauges import lateness
from wfdash.queries.workers import unserved, workers
from wfdash.web.pages.runs.header import plain, status_sentence
from wfdash.worker import serving as heartbeat
from wfdash.worker import sweeps
from wfdash.worker.db_thread import DbThread
from wfdash.worker.process import EmbeddedWorker
from wfdash.worker.serving import FORGET, Heartbeat, Serving, record_heartbeat, start_heartbeat, stop_heartbeat


def test_a_worker_says_that_it_lives_and_when_it_ends(start_worker: Callable[..., EmbeddedWorker]) -> None:
    worker = start_worker()
    until(lambda: workers(database_now()))
    worker.stop()
    # It ends without waiting for a database that takes longer than END_SECONDS.
    until(lambda: not workers(database_now()))


def test_a_server_that_starts_forgets_the_worker_of_the_one_that_was_killed(start_worker) -> None:
    before = start_worker()
    until(lambda: workers(database_now()))
    (killed,) = (row.name for row in workers(database_now()))
    before.stop()
    start_heartbeat(killed, {"expense": "1"})
    start_worker()
    assert killed not in {row.name for row in workers(database_now())}


@pytest.mark.django_db
def test_a_run_of_a_version_that_no_worker_has_says_so() -> None:
    make_people()
    run = make_run(workflow="expense", version="0123456789ab", phase="ready")
    start_heartbeat("new", {"expense": "another"})
    found = read_run(viewer("otto"), run.pk)
    assert found.pending == "version"
    assert plain(status_sentence(found), timezone.now()).startswith("Waiting for a worker with version 01234567 of")
    assert [row.pending for row in read_runs(viewer("otto")).items] == ["version"]
    start_heartbeat("old", {"expense": "0123456789ab"})
    assert read_run(viewer("otto"), run.pk).pending == ""


@pytest.mark.django_db
def test_a_workflow_is_unserved_unless_a_worker_has_it_or_does_not_say() -> None:
    both = ["expense", "leave"]
    assert unserved(both) == {*both}, "no worker lives"
    start_heartbeat("one", {"leave": "1"})
    assert unserved(both) == {"expense"}
    start_heartbeat("older")
    assert unserved(both) == set()


def test_a_worker_counts_what_happened(start_worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "COUNT_SECONDS", 0.01)
    run = make_run()
    started = Event.objects.create(run=run, seq=1, kind="run.started", data={}, at=timezone.now())
    start_worker()
    until(lambda: TallyMark.objects.filter(event=started.pk))
    assert Tally.objects.get(measure=Measure.STARTED, hour=ALL_TIME).count == 1


@pytest.mark.django_db
def test_a_worker_that_is_silent_is_not_counted_on_and_later_forgotten() -> None:
    start_heartbeat("one")
    record_heartbeat("one", runs=3, late=0.5)
    assert [(row.name, row.runs, row.late) for row in workers(database_now())] == [("one", 3, 0.5)]
    assert workers(database_now() + HEARTBEAT_TIMEOUT) == []
    WorkerBeat.objects.update(seen=database_now() - FORGET)
    start_heartbeat("two")
    assert [row.name for row in workers(database_now())] == ["two"]
    # Its row is gone, but it lives after all.
    record_heartbeat("one", runs=0, late=0.0)
    assert len(workers(database_now())) == 2
    stop_heartbeat("two")
    assert [row.name for row in workers(database_now())] == ["one"]


@pytest.mark.postgres
def test_a_look_for_runs_renews_the_heartbeat_and_hears_of_the_others(cluster, monkeypatch) -> None:
    serving, reading = Serving("one"), DbThread("test")
    monkeypatch.setattr(serving, "loaded", lambda: {"expense": "1"})
    alive = Heartbeat("one", lambda: 3, serving)
    start_heartbeat("two", {"expense": "2"})
    start_heartbeat("older")

    def seen() -> datetime:
        return WorkerBeat.objects.get(pk="one", runs=3).seen

    async def story() -> None:
        assert alive.side_statements() == [], "it has written nothing yet"
        keeping = asyncio.create_task(alive.run_until(asyncio.Event()))
        monkeypatch.setattr(heartbeat, "BY_LOOK_SECONDS", 0.0)
        while not (beside := alive.side_statements()):
            await asyncio.sleep(0.001)
        before = await reading.call(seen)
        serving.hear([], [])
        async with DatabaseStorage(cluster) as storage:
            await storage.look(beside=beside)
            assert await reading.call(seen) > before
            assert serving.serves().others == (("expense", "2"),)
            monkeypatch.setattr(heartbeat, "BY_LOOK_SECONDS", 60.0)
            assert alive.side_statements() == []
            await reading.call(lambda: stop_heartbeat("one"))
            await storage.look(beside=beside)
            assert alive.side_statements() != [], "its row is gone: that was no heartbeat"
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await reading.aclose()

    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.django_db
def test_what_is_overdue_is_told_by_its_oldest() -> None:
    now = database_now()
    make_run(phase="sleeping", wake_at=now - timedelta(minutes=2))
    make_run(phase="sleeping", wake_at=now + timedelta(minutes=2))
    make_run(phase="cancelled", wake_at=now - timedelta(minutes=9))
    assert lateness(now) == {"naps": 120.0}


@pytest.mark.django_db
def test_the_latest_sleeper_is_found_without_reading_runs_that_wait() -> None:
    with CaptureQueriesContext(connection) as queries:
        lateness(timezone.now())
    (sleepers,) = (query["sql"] for query in queries if "wake_at" in query["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sleepers}")
        assert "USING INDEX run_to_wake" in str(cursor.fetchall())
