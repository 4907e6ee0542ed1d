"""``wfdash backup`` makes a whole copy of a data directory, or none."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wfdash import cli
from wfdash.cli import upkeep


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a data directory whose database a server has open: its last commit is in the log beside it alone."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("WFDASH_DATA", str(folder))
    monkeypatch.delenv("WFDASH_DATABASE", raising=False)
    (folder / "secret_key").write_text("k" * 50)
    with closing(sqlite3.connect(folder / "wfdash.sqlite3", isolation_level=None)) as server:
        server.execute("PRAGMA journal_mode=WAL")
        server.execute("PRAGMA wal_autocheckpoint=0")
        server.execute("CREATE TABLE run (id TEXT)")
        server.execute("INSERT INTO run VALUES ('committed')")
        server.execute("BEGIN IMMEDIATE")
        server.execute("INSERT INTO run VALUES ('not yet')")
        yield folder


def test_a_copy_has_what_was_committed_and_the_keys_and_is_private(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WFDASH_AUDIT_KEY", "elsewhere")
    assert cli.main(["backup", str(tmp_path / "made")]) == 0
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["secret_key", "wfdash.sqlite3"]
    with closing(sqlite3.connect(tmp_path / "made" / "wfdash.sqlite3")) as copy:
        assert copy.execute("SELECT id FROM run").fetchall() == [("committed",)]
    assert (tmp_path / "made" / "secret_key").read_text() == "k" * 50
    for path in (tmp_path / "made", *(tmp_path / "made").iterdir()):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    assert "Not in it, keep it elsewhere: WFDASH_AUDIT_KEY" in capsys.readouterr().out


def test_a_folder_that_exists_is_left_alone(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made").mkdir()
    assert cli.main(["backup", str(tmp_path / "made")]) == 1
    assert "exists: name a new folder" in capsys.readouterr().err
    assert list((tmp_path / "made").iterdir()) == []


def test_a_backup_that_fails_leaves_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, folder: Path) -> list[str]:
        (folder / "half").touch()
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(upkeep, "copy_data", full)
    assert cli.main(["backup", str(tmp_path / "made")]) == 1
    assert "No backup was made: database or disk is full" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_damaged_database_is_not_taken_for_a_backup(data: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "wfdash.sqlite3").write_bytes(b"SQLite format 3\0" + b"x" * 8000)
    (tmp_path / "to").mkdir()
    with pytest.raises(sqlite3.DatabaseError):
        upkeep.copy_data(tmp_path / "broken", tmp_path / "to")


def test_on_postgresql_it_says_what_does_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WFDASH_DATABASE", "postgresql://db/wfdash")
    monkeypatch.setenv("WFDASH_SECRET_KEY", "k" * 50)
    assert cli.main(["backup", str(tmp_path / "made")]) == 1
    assert "pg_dump -Fc" in capsys.readouterr().err
