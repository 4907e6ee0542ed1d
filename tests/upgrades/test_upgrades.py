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

from checkpoints.file import FileStorage
from checkpoints.ids import RunId
from checkpoints.sql.sqlite.schema import VERSION
from tests import nursery
from tests.upgrades import make, make_team
from tests.upgrades.flow import flow
from wfdash.contract import Finished

ROOT = Path(__file__).resolve().parents[2]
END = "approve offer for 100 approve: 200 lines"


def restore(name: str, to: Path) -> Path:
    """Make a database of a dump."""
    with closing(sqlite3.connect(to)) as connection:
        connection.executescript(gzip.decompress((make.HERE / name).read_bytes()).decode())
    return to


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
def test_the_runs_of_an_older_dashboard_go_on(tmp_path: Path, sqlite_template: Path) -> None:
    database = restore("dashboard.sql.gz", tmp_path / "wfdash.sqlite3")
    done = run_module("tests.upgrades.go_on", tmp_path)
    assert done.returncode == 0, done.stderr
    ended = {"phase": "completed", "output": END, "readable": True}
    assert json.loads(done.stdout) == {
        make.WAITING: {"answered": 2, **ended},
        make.ASKED_AGAIN: {"answered": 1, **ended},
        make.DONE: {"answered": 0, **ended},
    }
    assert shape_of(database) == shape_of(sqlite_template)
    assert run_module("wfdash", tmp_path, "verify").returncode == 0


@pytest.mark.process
def test_a_team_goes_on_with_what_an_older_dashboard_kept(tmp_path: Path, sqlite_template: Path) -> None:
    database = restore("team.sql.gz", tmp_path / "wfdash.sqlite3")
    done = run_module("tests.upgrades.team_goes_on", tmp_path)
    assert done.returncode == 0, done.stderr
    ended = {"phase": "completed", "output": END, "readable": True}
    assert json.loads(done.stdout) == {
        "refused": [],
        "password": True,
        "token": sorted([make.WAITING, make.ASKED_AGAIN, make.DONE, make_team.VOTED]),
        "voted": {"phase": "completed", "output": "approve", "thread": ["Look at the total, @ben"]},
        "restored": {"answered": 2, **ended},
        "late": [5],
        # Three that the old version had queued as "decided", one for each answer since.
        "webhook": {"kinds": ["answered"], "owner": None, "waiting": 6},
        "others": {make.WAITING: {"answered": 2, **ended}, make.ASKED_AGAIN: {"answered": 1, **ended}},
    }
    assert shape_of(database) == shape_of(sqlite_template)
    assert "the chain holds" in done.stderr


@pytest.mark.process
def test_a_database_with_only_some_of_the_former_migrations_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(restore("dashboard.sql.gz", tmp_path / "wfdash.sqlite3"))) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app='checkpoints' AND name > '0020'")
        connection.commit()
    done = run_module("wfdash", tmp_path, "manage", "migrate")
    assert done.returncode != 0
    assert "lacks the migration checkpoints.0020_pause_after_a_step" in done.stderr


@pytest.mark.parametrize(("name", "asked"), [(make.WAITING, 2), (make.ASKED_AGAIN, 1), (make.DONE, 0)])
async def test_the_runs_of_an_older_file_go_on(name: str, asked: int, tmp_path: Path) -> None:
    path = restore("file.sql.gz", tmp_path / "runs.sqlite3")
    async with FileStorage(path) as storage:
        for _ in range(asked):
            latest = await storage.get_latest(RunId(name))
            assert latest is not None
            answers = {request.key: {"action": "approve"} for request in latest.requests}
            outcome = await flow.run(answers=answers, storage=storage, run_id=name)
        outcome = outcome if asked else await flow.run(storage=storage, run_id=name)
        assert isinstance(outcome, Finished)
        assert outcome.output == END
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
