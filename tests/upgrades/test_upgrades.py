"""What an older version wrote is opened by this one, and its runs go on. ``make`` says where it comes from."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import nursery
from tests.upgrades import make

ROOT = Path(__file__).resolve().parents[2]
END = "approve offer for 100 approve: 200 lines"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Make the older version's database, where a server looks for it."""
    path = tmp_path / "wfdash.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(gzip.decompress(make.DUMP.read_bytes()).decode())
    return path


def run_module(name: str, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module on a data directory, with nothing of the tests' settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WFDASH_", "DJANGO_"))}
    env = kept | {"WFDASH_AUDIT_KEY": make.AUDIT_KEY, "WFDASH_DATA": str(data), "WFDASH_UNDO": "0"}
    return nursery.run([sys.executable, "-m", name, *arguments], cwd=ROOT, env=env)


def shape_of(database: Path) -> dict[str, Any]:
    """Return tables, indexes and their columns; SQLite holds no one to a length, so lengths are left out."""
    with closing(sqlite3.connect(database)) as connection:
        entries = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'checkpoints_%'")
        return {name: columns_of(connection, name) if type_ == "table" else sql for type_, name, sql in entries}


def columns_of(connection: sqlite3.Connection, table: str) -> list[Any]:
    """Return a table's columns in alphabetical order, then what they refer to."""
    columns = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
    known = sorted((name, type_.partition("(")[0], *rest) for _, name, type_, *rest in columns)
    return [*known, *sorted(row[2:] for row in connection.execute(f"PRAGMA foreign_key_list({table})"))]


@pytest.mark.process
def test_people_sign_in_to_an_older_dashboard_and_its_runs_go_on(database: Path, sqlite_template: Path) -> None:
    done = run_module("tests.upgrades.go_on", database.parent)
    assert done.returncode == 0, done.stderr
    ended = {"phase": "completed", "output": END, "readable": True}
    assert json.loads(done.stdout) == {
        "pages": [200] * 5,
        make.WAITING: {"answered": 2, **ended},
        make.ASKED_AGAIN: {"answered": 1, **ended},
        make.DONE: {"answered": 0, **ended},
    }
    assert shape_of(database) == shape_of(sqlite_template)
    assert run_module("wfdash", database.parent, "verify").returncode == 0


@pytest.mark.process
def test_a_database_with_only_some_of_the_former_migrations_is_refused(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app='checkpoints' AND name = '0030_content_keys'")
        connection.commit()
    done = run_module("wfdash", database.parent, "manage", "migrate")
    assert done.returncode != 0
    assert "lacks the migration checkpoints.0030_content_keys" in done.stderr
    assert "checkpoints.0030_content_keys" in run_module("wfdash", database.parent, "doctor").stdout
