from __future__ import annotations

import logging
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connections

from checkpoints.database.alias import atomic
from checkpoints.models import Run
from checkpoints.sql.postgres.conninfo import parameters_of
from tests.hints.conftest import NEEDS, QUEUED
from tests.pubsub.conftest import eventually

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
    monkeypatch.setattr("wfdash.hints.queued.RETRY_SECONDS", 0.05)
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
