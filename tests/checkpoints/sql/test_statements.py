from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections

from checkpoints.records import CheckpointFilter
from checkpoints.sql.claims import ClaimStatements, insert_claims, lock_due, look_at, next_epochs, scope_of, select_due
from checkpoints.sql.reads import list_checkpoints
from checkpoints.sql.sqlite import connect
from checkpoints.sql.statements import POSTGRES, SQLITE, Dialect, Statements, current_tokens, extend_many
from checkpoints.storage import Serves


@pytest.fixture
def database(sqlite_alias: str) -> Iterator[sqlite3.Connection]:
    connection = connect(str(connections[sqlite_alias].settings_dict["NAME"]))
    yield connection
    connection.close()


def plan(database: sqlite3.Connection, sql: str) -> str:
    """Return how SQLite would find the rows."""
    parameters = [None] * sql.count("?")
    return "\n".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))


HOT = ["latest", "ids", "load", "events", "answers", "facts", "move_fenced", "moved"]
PRUNING = ["relatives", "needed", "roots", "hashes", "origins"]


@pytest.mark.parametrize("name", [*HOT, *PRUNING])
def test_no_read_scans_a_table_or_sorts(database: sqlite3.Connection, name: str) -> None:
    steps = plan(database, getattr(Statements(SQLITE), name))
    assert "SCAN" not in steps
    assert name in ("relatives",) or "TEMP B-TREE" not in steps


FILTERS = [
    {},
    {"step": "s", "clean": True},
    {"has_request": True},
    {"labelled": True},
    {"since": datetime(2026, 1, 1, tzinfo=UTC)},
]


@pytest.mark.parametrize("chosen", FILTERS, ids=str)
def test_no_list_scans_a_table_or_sorts(database: sqlite3.Connection, chosen: dict[str, Any]) -> None:
    sql, _ = list_checkpoints(SQLITE, "run", 10, 5, CheckpointFilter(**chosen))
    steps = plan(database, sql)
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps


def test_lists_of_questions_and_labels_have_an_index_of_their_own(database: sqlite3.Connection) -> None:
    for chosen, index in (("has_request", "checkpoint_waiting"), ("labelled", "checkpoint_labelled")):
        sql, _ = list_checkpoints(SQLITE, "run", 10, 5, CheckpointFilter(**{chosen: True}))
        assert index in plan(database, sql)


def test_the_latest_checkpoint_is_one_indexed_read(database: sqlite3.Connection) -> None:
    assert plan(database, Statements(SQLITE).latest).count("\n") == 0


SCOPE, _ = scope_of(Serves(workflows=("a", "b"), others=(("a", "1"), ("b", "2"))))


@pytest.mark.parametrize("suspect", [None, True, False])
@pytest.mark.parametrize("capped", [True, False])
@pytest.mark.parametrize("scope", ["", SCOPE])
def test_of_all_runs_only_those_that_are_due_are_read_and_already_in_their_order(
    database: sqlite3.Connection, suspect: bool | None, capped: bool, scope: str
) -> None:
    steps = plan(database, select_due(SQLITE, suspect=suspect, lock=True, capped=capped, scope=scope))
    ready, woken = steps.split("UNION ALL", 2)[:2]
    assert "r USING INDEX run_to_take" in ready
    assert "r USING INDEX run_to_wake" in woken
    assert "TEMP B-TREE" not in ready + woken
    assert "SCAN c\n" in steps, "there are as many claims as runs in progress"
    assert "run_by_workflow" not in steps


BY_COUNT = (lock_due, look_at, next_epochs, insert_claims, current_tokens, extend_many)


def statements(dialect: Dialect) -> list[str]:
    """Return every statement in a dialect, always in the same order."""
    fixed = [*vars(Statements(dialect)).values(), *vars(ClaimStatements(dialect)).values()]
    due = [select_due(dialect, suspect=which, lock=True, capped=True, scope=SCOPE) for which in (None, True, False)]
    return [*fixed, *due, *(sql(dialect, count) for sql in BY_COUNT for count in (1, 2))]


def test_every_statement_is_valid_sqlite(database: sqlite3.Connection) -> None:
    for sql in statements(SQLITE):
        database.execute(f"EXPLAIN {sql}", [None] * sql.count("?")).fetchall()


def test_the_dialects_differ_only_where_they_must() -> None:
    for theirs, ours in zip(statements(POSTGRES), statements(SQLITE), strict=True):
        assert "?" not in theirs
        assert theirs.count("%s") == ours.count("?")


def test_sqlite_writes_are_durable(database: sqlite3.Connection) -> None:
    def pragma(name: str) -> Any:
        return database.execute(f"PRAGMA {name}").fetchone()[0]

    assert pragma("synchronous") == 2
    assert pragma("journal_mode") == "wal"
    assert pragma("journal_size_limit") == 67_108_864
