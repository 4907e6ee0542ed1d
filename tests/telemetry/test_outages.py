"""An outage of the database is one line of the log when it begins and one when it is over."""

from __future__ import annotations

import io
import logging
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, OperationalError
from psycopg.errors import AdminShutdown, DeadlockDetected, LockNotAvailable, ReadOnlySqlTransaction

from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import StorageFailed
from wfdash.actions import pacing
from wfdash.telemetry.logs import DatabaseOutage, FailingLoop, FoldOutages, is_outage


class Database:
    """What the outage looks at."""

    def __init__(self) -> None:
        self.away = True

    def look(self) -> None:
        if self.away:
            raise OperationalError("still away")


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def outage(database: Database) -> DatabaseOutage:
    return DatabaseOutage(database.look, every=0.005, quiet=0.05)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(outage: DatabaseOutage, out: io.StringIO) -> Iterator[logging.Logger]:
    """Give a logger as the settings have it; what the outage itself says goes to ``out`` too."""
    handler = logging.StreamHandler(out)
    handler.addFilter(FoldOutages(outage))
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    loggers = [logging.getLogger(name) for name in ("wfdash.test_outages", "wfdash.telemetry.logs", "psycopg.test")]
    for one in loggers:
        one.addHandler(handler)
    yield loggers[0]
    outage.over.wait(5)
    for one in loggers:
        one.removeHandler(handler)


def fail(log: logging.Logger, words: str, error: BaseException) -> None:
    try:
        raise error
    except type(error):
        log.exception(words)


def test_of_the_errors_of_all_loops_runs_and_requests_one_line_is_logged_and_one_at_the_end(
    log: logging.Logger, out: io.StringIO, database: Database, outage: DatabaseOutage
) -> None:
    for n in range(20):
        fail(log, f"Could not look for {n}; retrying", OperationalError("connection refused\nIs it running?"))
    log.error("Database unavailable for run %s: %s", 7, psycopg.OperationalError("gone"))
    for path in ("/a", "/b"):
        log.error("Service Unavailable: %s", path, extra={"status_code": 503})
    fail(log, "Could not look for due runs", TimeoutError())
    logging.getLogger("psycopg.test").warning("error ignored")
    database.away = False
    assert outage.over.wait(5)
    begun, over = [line for line in out.getvalue().splitlines() if line]
    assert begun == (
        "WARNING wfdash.telemetry.logs The database is unavailable: OperationalError: connection refused. What "
        "needs it waits and is retried; until it is back its errors are counted and not logged. First: Could not "
        "look for 0; retrying"
    )
    assert over.startswith("WARNING wfdash.telemetry.logs The database is available again after 0 s. Not logged: ")
    assert over.endswith("21 errors and 2 requests answered with 503")


def test_other_errors_are_logged_during_an_outage_and_all_after_it(
    log: logging.Logger, out: io.StringIO, database: Database, outage: DatabaseOutage
) -> None:
    fail(log, "It failed", OperationalError("gone"))
    fail(log, "A step broke", ValueError("no number"))
    database.away = False
    assert outage.over.wait(5)
    fail(log, "A call took too long", TimeoutError())
    for words in ("A step broke", "ValueError: no number", "A call took too long"):
        assert words in out.getvalue()


def test_the_errors_of_a_group_of_tasks_are_the_outage_s_if_each_is(
    log: logging.Logger, out: io.StringIO, database: Database
) -> None:
    away, group = OperationalError("the server closed the connection"), "unhandled errors in a TaskGroup"
    fail(log, "a live socket broke", ExceptionGroup(group, [ExceptionGroup(group, [away]), away]))
    fail(log, "another socket broke", ExceptionGroup(group, [away, KeyError("x")]))
    first, second, *_ = out.getvalue().splitlines()
    assert first.startswith("WARNING wfdash.telemetry.logs The database is unavailable: OperationalError: the server")
    assert first.endswith("First: a live socket broke")
    assert second == "ERROR wfdash.test_outages another socket broke"
    database.away = False


def test_a_database_that_answers_and_refuses_to_write_is_one_outage(
    log: logging.Logger, out: io.StringIO, database: Database, outage: DatabaseOutage
) -> None:
    database.away = False
    until = time.monotonic() + 0.15
    while time.monotonic() < until:
        fail(log, "Could not write", ReadOnlySqlTransaction("read-only"))
        time.sleep(0.01)
    assert outage.over.wait(5)
    assert out.getvalue().count("The database is unavailable") == 1
    assert out.getvalue().count("available again") == 1


def test_another_reason_is_one_more_line(
    log: logging.Logger, out: io.StringIO, database: Database, outage: DatabaseOutage
) -> None:
    for _ in range(3):
        fail(log, "Could not write", AdminShutdown("terminating"))
        fail(log, "Could not write", ReadOnlySqlTransaction("in a read-only transaction"))
    database.away = False
    assert outage.over.wait(5)
    assert [line.partition("wfdash.telemetry.logs ")[2][:62] for line in out.getvalue().splitlines() if line] == [
        "The database is unavailable: AdminShutdown: terminating. What ",
        "The database is still unavailable, for another reason: ReadOnl",
        "The database is available again after 0 s. Not logged: 4 error",
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationalError("connection refused"), True),
        (psycopg.OperationalError("connection refused"), True),
        (AdminShutdown("terminating"), True),
        (psycopg.DatabaseError("server closed the connection unexpectedly"), True),
        (ReadOnlySqlTransaction("read-only"), True),
        (psycopg.InternalError("corrupt page"), False),
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.OperationalError("database is locked"), False),
        (DeadlockDetected("deadlock"), False),
        (LockNotAvailable("lock timeout"), False),
        (ValueError("OperationalError"), False),
    ],
)
def test_what_a_busy_database_does_is_no_outage(error: BaseException, expected: bool) -> None:
    assert is_outage(error) is expected


def test_what_the_database_adapter_wrapped_is_judged_by_its_cause() -> None:
    wrapped: Any = OperationalError("deadlock")
    wrapped.__cause__ = DeadlockDetected("deadlock")
    assert not is_outage(wrapped)


def test_a_connection_that_ends_before_its_result_is_an_outage_to_log_storage_and_sweeps() -> None:
    error: Any = psycopg.DatabaseError("server closed the connection unexpectedly")
    for wrapped in (DatabaseError("closed"), StorageFailed("closed")):
        wrapped.__cause__ = error
        assert is_outage(wrapped)
        assert DatabaseStorage().is_outage(wrapped)
        assert pacing.is_outage(wrapped)
    assert not is_outage(sqlite3.DatabaseError("malformed"))
    assert not DatabaseStorage().is_outage(sqlite3.DatabaseError("malformed"))


def test_what_fails_again_and_again_is_logged_once_and_again_after_it_has_worked(caplog) -> None:
    loop = FailingLoop(logging.getLogger("wfdash.test_outages"), "Could not do %s; retrying", "this")
    for why in "aabb":
        loop.failed(ValueError(why))
    loop.works()
    loop.failed(ValueError("b"))
    said = [f"{one.getMessage()}: {one.exc_info[1]}" for one in caplog.records if one.exc_info]
    assert said == [f"Could not do this; retrying: {why}" for why in "abb"]


def test_an_error_whose_text_cannot_be_made_is_logged_once_and_ends_no_loop(caplog) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    log = logging.getLogger("wfdash.test_outages")
    loop = FailingLoop(log, "Could not do it; retrying")
    for _ in range(2):
        loop.failed(Mute())
    said = [record.getMessage() for record in caplog.records if record.name == log.name]
    assert said == ["Could not do it; retrying"]
