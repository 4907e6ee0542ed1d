from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from checkpoints.sql import POSTGRES, SQLITE, Statements
from checkpoints.sqlite import connect


@pytest.fixture
def database(sqlite_alias: str) -> Iterator[sqlite3.Connection]:
    """Give a bare connection to a migrated database."""
    connection = connect(str(connections[sqlite_alias].settings_dict["NAME"]))
    yield connection
    connection.close()


def plan(database: sqlite3.Connection, sql: str) -> str:
    """Return how SQLite would find the rows."""
    parameters = [None] * sql.count("?")
    return "\n".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))


@pytest.mark.parametrize("name", ["latest", "list", "ids", "load", "events", "answers", "facts", "due", "move_fenced"])
def test_no_read_of_the_hot_path_scans_a_table_or_sorts(database: sqlite3.Connection, name: str) -> None:
    steps = plan(database, getattr(Statements(SQLITE), name))
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps


def test_the_latest_checkpoint_is_one_indexed_read(database: sqlite3.Connection) -> None:
    assert plan(database, Statements(SQLITE).latest).count("\n") == 0


def test_every_statement_is_valid_sqlite(database: sqlite3.Connection) -> None:
    for sql in vars(Statements(SQLITE)).values():
        database.execute(f"EXPLAIN {sql}", [None] * sql.count("?")).fetchall()


def test_the_dialects_differ_only_where_they_must() -> None:
    for name, sql in vars(Statements(POSTGRES)).items():
        assert "?" not in sql
        assert sql.count("%s") == getattr(Statements(SQLITE), name).count("?")


def test_sqlite_writes_are_durable(database: sqlite3.Connection) -> None:
    def pragma(name: str) -> Any:
        return database.execute(f"PRAGMA {name}").fetchone()[0]

    assert pragma("synchronous") == 2
    assert pragma("journal_mode") == "wal"
    assert pragma("journal_size_limit") == 67_108_864
