"""The tables of a file and the migrated ones are written by the same statements: they must agree."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connections

from checkpoints.file import FileStorage
from checkpoints.records import CheckpointInfo
from checkpoints.sql import tables
from checkpoints.sql.sqlite.executor import connect
from checkpoints.sql.sqlite.schema import UPGRADES, VERSION, create_tables, run_all

OF_THE_DASHBOARD = {
    "checkpoints_run": (
        "altered created_by_id ending ending_as follows follows_n listed noted own_title requesters start_key summary "
        "thread"
    ),
    "checkpoints_humanrequest": "asked assignee_id replaces settles stuck subject suggestion told",
    "checkpoints_answer": "acting_for others verdict",
    "checkpoints_chunk": "id",
}
"""Columns that only the dashboard's tables have."""
LATER = {"policy", "risk"}
"""Columns that an upgrade added to a file: SQLite adds none that is ``NOT NULL`` without a default."""
ADDED = [
    *(("humanrequest", name) for name in ("policy", "alarm", "risk")),
    ("checkpoint", "facts"),
    ("answer", "digest"),
    *(("run", name) for name in ("for_workers", "priority", "ready_at")),
]
"""What the first version of a file had not."""


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    """Give the tables of a file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        yield connection


@pytest.fixture
def migrated(sqlite_alias: str) -> Iterator[sqlite3.Connection]:
    """Give the migrated tables."""
    with closing(connect(str(connections[sqlite_alias].settings_dict["NAME"]))) as connection:
        yield connection


def tables_of(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the tables."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'checkpoints_%'")
    return [name for (name,) in rows]


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, tuple[Any, ...]]:
    """Return of each column whether it may be empty, its default, and whether it is a primary key."""
    rows = connection.execute(f"PRAGMA table_xinfo({table})")
    return {name: (bool(required), default, bool(key)) for _, name, _, required, default, key, _ in rows}


def unique_of(connection: sqlite3.Connection, table: str) -> set[tuple[tuple[str, ...], bool]]:
    """Return the columns of each unique index that is no primary key, and whether it is for some rows alone."""
    indexes = connection.execute(f"PRAGMA index_list({table})").fetchall()
    return {
        (tuple(row[2] for row in connection.execute(f"PRAGMA index_info({name})")), bool(partial))
        for _, name, unique, origin, partial in indexes
        if unique and origin != "pk"
    }


def test_a_file_has_every_column_of_its_tables_but_the_dashboards_own(
    file: sqlite3.Connection, migrated: sqlite3.Connection
) -> None:
    for table in tables_of(file):
        ours, theirs = columns_of(file, table), columns_of(migrated, table)
        assert set(theirs) - set(ours) == set(OF_THE_DASHBOARD.get(table, "").split()), table
        assert set(ours) <= set(theirs), table
        for name in set(ours) - LATER:
            required, _, key = theirs[name]
            assert (ours[name][0] or ours[name][2], ours[name][2]) == (required, key), (table, name)


def test_what_is_unique_in_one_is_unique_in_the_other(file: sqlite3.Connection, migrated: sqlite3.Connection) -> None:
    for table in tables_of(file):
        mine, theirs = unique_of(file, table), unique_of(migrated, table)
        assert mine <= theirs, table
        assert {columns for columns, _ in theirs - mine} <= {("start_key",), ("token",)}, table


@pytest.mark.parametrize(
    ("table", "written"),
    [
        ("checkpoints_run", (*tables.RUN, "created", "updated")),
        ("checkpoints_checkpoint", tables.CHECKPOINT),
        ("checkpoints_humanrequest", (*tables.REQUEST, "created", "closed_as")),
        ("checkpoints_event", (*tables.EVENT, "at")),
        ("checkpoints_effect", (*tables.EFFECT, "at")),
    ],
)
def test_what_a_statement_leaves_out_has_a_default(
    table: str, written: tuple[str, ...], file: sqlite3.Connection, migrated: sqlite3.Connection
) -> None:
    for connection in (file, migrated):
        columns = columns_of(connection, table)
        assert set(written) <= set(columns)
        left = {name: facts for name, facts in columns.items() if name not in written}
        assert [
            name for name, (required, default, key) in left.items() if required and default is None and not key
        ] == []


def test_a_checkpoints_columns_are_its_records_fields() -> None:
    fields = apps.get_model("checkpoints", "Checkpoint")._meta.concrete_fields
    assert set(tables.CHECKPOINT) == {field.column for field in fields}
    assert tuple(CheckpointInfo.model_fields) == tables.INFO


async def test_an_old_file_gets_the_columns_of_a_new_one(tmp_path: Path, file: sqlite3.Connection) -> None:
    path = tmp_path / "runs.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        create_tables(old)
        old.execute("DROP INDEX run_to_take")
        for table, name in ADDED:
            old.execute(f"ALTER TABLE checkpoints_{table} DROP COLUMN {name}")
        run_all(old, "PRAGMA user_version=1")
    assert sorted(UPGRADES) == list(range(1, VERSION))
    async with FileStorage(path) as storage:
        await storage.list_runs()
    with closing(connect(str(path))) as upgraded:
        for table in tables_of(file):
            assert columns_of(upgraded, table) == columns_of(file, table)
