"""An empty SQLite database gets the tables that all migrations together leave, without taking their steps."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from checkpoints.database import schema
from checkpoints.models import AuditHead, Run
from checkpoints.models.fields import current_keyring


@pytest.fixture
def empty(tmp_path: Path, django_db_blocker: Any) -> Iterator[BaseDatabaseWrapper]:
    """Give a connection to an empty SQLite database."""
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
    connections.settings["empty"] = sqlite
    connections.configure_settings(connections.settings)
    with django_db_blocker.unblock():
        yield connections["empty"]
        connections["empty"].close()
    del connections["empty"], connections.settings["empty"]


def parts_of(statement: str) -> list[str]:
    """Return what a statement has in its parentheses, by commas: a table's columns and constraints, sorted."""
    parts, depth = [""], 0
    for piece in re.findall(
        r"'[^']*'|\"[^\"]*\"|.", statement[statement.index("(") + 1 : statement.rindex(")")], re.DOTALL
    ):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return sorted(part.strip() for part in parts)


def tables_of(file: Any) -> dict[tuple[str, str], Any]:
    """Return the parts of each table in a file; of indexes, triggers and views their text."""
    with closing(sqlite3.connect(file)) as read:
        found = read.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(kind, name): parts_of(sql) if kind == "table" else sql for kind, name, sql in found}


def test_the_schema_is_the_one_that_the_migrations_leave(empty: BaseDatabaseWrapper) -> None:
    file = Path(empty.settings_dict["NAME"])
    # Django's own command, step by step.
    call_command("migrate", database="empty", verbosity=0)
    migrated = tables_of(file)
    empty.close()
    file.unlink()
    assert schema.create_schema(empty)
    made = tables_of(file)
    assert made.keys() == migrated.keys()
    assert {name: parts for name, parts in made.items() if parts != migrated[name]} == {}
    assert len([name for kind, name in made if kind == "table"]) > 50


def test_all_migrations_count_as_applied_and_the_audit_begins_signed(empty: BaseDatabaseWrapper) -> None:
    assert schema.create_schema(empty)
    assert MigrationRecorder(empty).applied_migrations().keys() >= schema.needed_migrations()
    executor = MigrationExecutor(empty)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    head = AuditHead.objects.using("empty").get()
    assert (head.n, head.hash, current_keyring().flaw(head.signature, "head", "0", "")) == (0, "", "")


def test_it_is_made_whole_or_not_at_all(empty: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(MigrationRecorder, "record_applied", fail)
    with pytest.raises(OSError, match="full"):
        schema.create_schema(empty)
    assert empty.introspection.table_names() == []


def test_apps_of_a_project_are_migrated_step_by_step(
    empty: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "OWN_APPS", schema.OWN_APPS - {"sessions"})
    assert not schema.create_schema(empty)
    assert empty.introspection.table_names() == []


def test_tables_that_belong_to_another_database_are_left_out(empty: BaseDatabaseWrapper, settings: Any) -> None:
    settings.DATABASE_ROUTERS = ["checkpoints.database.router.Router"]
    settings.WFDASH_DATABASE_ALIAS = "empty"
    assert schema.create_schema(empty)
    found = empty.introspection.table_names()
    assert Run._meta.db_table in found
    assert "django_session" not in found
