from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connections

from checkpoints.database.alias import atomic
from checkpoints.models import Run
from checkpoints.sql.conninfo import parameters_of
from tests.hints.conftest import NEEDS, QUEUED, kill_once_it_is_there
from tests.pubsub.conftest import eventually

queued = pytest.importorskip("wfdash.pubsub.hints.queued")
pytestmark = [NEEDS, pytest.mark.parametrize("hints", [QUEUED], indirect=True)]


@pytest.fixture
def server(postgres_alias: str) -> Iterator[psycopg.Connection]:
    """A connection of its own beside those of the hints, with no job in the queue."""
    with psycopg.connect(**parameters_of(connections[postgres_alias].settings_dict), autocommit=True) as connection:
        connection.execute("DELETE FROM procrastinate_jobs")
        yield connection


def jobs(server: psycopg.Connection) -> list[tuple]:
    columns = "args ->> 'run', priority, status::text"
    return server.execute(f"SELECT {columns} FROM procrastinate_jobs ORDER BY id").fetchall()


def fetch(server: psycopg.Connection) -> str | None:
    """Take the next job as a worker does; None if there is none."""
    row = server.execute("SELECT args ->> 'run' FROM procrastinate_fetch_job_v2(NULL, NULL)").fetchone()
    return None if row is None else row[0]


def test_hints_at_one_run_are_one_job_of_the_highest_priority(hints, make_run, server) -> None:
    run = make_run(priority=5)
    hints.send(run)
    Run.objects.using("postgres").filter(pk=run).update(priority=10)
    hints.send(run)
    Run.objects.using("postgres").filter(pk=run).update(priority=0)
    hints.send(run)
    assert jobs(server) == [(run, 10, "todo")]


def test_the_most_important_run_comes_first_then_the_oldest(hints, make_run, server) -> None:
    low, old, new = make_run(priority=0), make_run(priority=10), make_run(priority=10)
    hints.send(low)
    hints.send(old)
    hints.send(new)
    assert [fetch(server) for _ in range(4)] == [old, new, low, None]


def test_no_hint_is_lost_where_an_earlier_one_is_fetched_before_the_commit(hints, make_run, server) -> None:
    run = make_run()
    hints.send(run)
    with atomic():
        hints.send(run)
        assert fetch(server) is None
    assert fetch(server) == run


def test_a_job_has_ended_once_the_claim_is_taken(hints, make_run, server, serve) -> None:
    worker, run = serve(), make_run()
    hints.send(run)
    eventually(lambda: worker.heard == [run] and jobs(server) == [])


def test_a_worker_gets_only_runs_of_workflows_that_it_has(hints, make_run, server, serve) -> None:
    worker, foreign, ours = serve(), make_run("other"), make_run()
    hints.send(foreign)
    hints.send(ours)
    eventually(lambda: worker.heard)
    eventually(lambda: jobs(server) == [(foreign, 0, "todo")])
    assert worker.heard == [ours]


def test_what_killed_workers_left_and_hints_at_runs_that_are_not_due_are_removed(
    hints, make_run, server, serve
) -> None:
    taken, ended, waiting = make_run("other"), make_run("other"), make_run("other")
    hints.send(taken)
    assert fetch(server) == taken
    hints.send(ended, waiting)
    Run.objects.using("postgres").filter(pk=ended).update(phase="completed")
    serve()
    eventually(lambda: jobs(server) == [(waiting, 0, "todo")])


def test_a_database_that_ends_the_connections_ends_no_worker_and_is_one_line(
    hints, make_run, server, serve, caplog, monkeypatch
) -> None:
    monkeypatch.setattr("wfdash.pubsub.hints.queued.RETRY_SECONDS", 0.05)
    caplog.set_level(logging.INFO, logger="wfdash")
    worker, first = serve(), make_run()
    hints.send(first)
    eventually(lambda: worker.heard == [first])
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%%hints%%'")
    eventually(lambda: " again after " in caplog.text)
    second = make_run()
    hints.send(second)
    eventually(lambda: worker.heard == [first, second])
    assert [record.levelname for record in caplog.records if record.name.startswith("wfdash")] == ["WARNING", "INFO"]


DOOMED = """
import json, sys, psycopg
address, statements, commit = json.loads(sys.argv[1])
with psycopg.connect(**address) as connection:
    for sql, parameters in statements:
        connection.execute(sql, parameters)
    if commit:
        connection.commit()
    print("here", flush=True)
    sys.stdin.read()
"""
FETCH = "SELECT args ->> 'run' FROM procrastinate_fetch_job_v2(NULL, NULL)"


@pytest.fixture
def die_after(postgres_alias: str) -> Callable[..., None]:
    """Run statements in a process of their own that is killed then, after the commit or before."""
    address = parameters_of(connections[postgres_alias].settings_dict)

    def die(*statements: tuple[str, list], commit: bool = True) -> None:
        kill_once_it_is_there(DOOMED, [address, statements, commit])

    return die


def test_a_process_that_is_killed_before_its_commit_leaves_no_hint(hints, make_run, server, die_after) -> None:
    die_after((queued.SEND, [[make_run()]]), commit=False)
    assert jobs(server) == []


def test_a_run_whose_hint_was_fetched_by_a_worker_that_was_killed_before_its_claim_is_found_and_hinted_at_again(
    hints, make_run, server, serve, die_after, claim
) -> None:
    run = make_run()
    hints.send(run)
    die_after((FETCH, []))
    assert jobs(server) == [(run, 0, "doing")]
    assert claim("alive") == [run]
    hints.send(run)
    worker = serve()
    eventually(lambda: worker.heard == [run] and jobs(server) == [])


def test_a_run_that_was_claimed_by_a_worker_that_was_killed_before_its_job_ended_is_taken_over_once(
    hints, make_run, server, serve, die_after, claim
) -> None:
    run = make_run()
    hints.send(run)
    die_after((FETCH, []))
    assert claim("killed", ttl=0.05) == [run]
    eventually(lambda: claim("alive") == [run])
    assert claim("another") == []
    serve()
    eventually(lambda: jobs(server) == [])


def test_timers_are_no_jobs_so_a_queue_holds_nothing_for_later(hints, make_run, server) -> None:
    later = make_run(phase="sleeping", wake_at=datetime.now(UTC) + timedelta(days=1))
    hints.send(later, make_run())
    assert server.execute("SELECT count(*) FROM procrastinate_jobs WHERE scheduled_at IS NOT NULL").fetchone() == (0,)
    server.execute(queued.TIDY)
    assert later not in {run for run, *_ in jobs(server)}


@pytest.mark.parametrize(("checked", "trips"), [(False, 0), (True, 1)])
def test_a_connection_of_the_pool_is_not_checked_before_each_use(hints, monkeypatch, checked, trips) -> None:
    executed: list[object] = []

    async def execute(self: object, query: object, *args: object, **kwargs: object) -> None:
        executed.append(query)

    async def use() -> None:
        pool = queued.open_pool()
        if checked:
            # As Procrastinate's own does.
            pool = type(pool)(kwargs=pool.kwargs, open=False, check=type(pool).check_connection)
        async with pool:
            await pool.wait()
            monkeypatch.setattr(psycopg.AsyncConnection, "execute", execute)
            async with pool.connection():
                pass

    asyncio.run(asyncio.wait_for(use(), 30))
    assert len(executed) == trips
