"""A database that is away, full or broken is ``StorageFailed`` by every way to it, and the driver's error its cause."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from checkpoints.conformance.worlds import checkpoint
from checkpoints.database.storage import DatabaseStorage, PostgresDatabase, scripts_for
from checkpoints.errors import CheckpointsError, StorageFailed
from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id
from checkpoints.records import Commit
from checkpoints.sql import postgres
from checkpoints.sql.durability import BOUNDS, TransactionMeter, meter
from checkpoints.sql.statements import POSTGRES
from tests.conformance.worlds import started
from wfdash.domain.errors import status_for
from wfdash.telemetry.logs import is_outage
from wfdash.workflow import Workflow

wf = Workflow("plain")


@wf.step(start=True)
async def echo(n: int) -> int:
    return n


async def kept(path: Path) -> None:
    """Make a file with a run."""
    async with FileStorage(path) as storage:
        await storage.save(checkpoint(new_run_id()))


def make_text(path: Path) -> None:
    path.write_text("no database " * 1_000)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [make_text, cut, make_folder])
async def test_a_file_that_is_no_database_any_more_is_told_with_its_path(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = tmp_path / "runs.sqlite3"
    await kept(path)
    spoil(path)
    storage = FileStorage(path)
    with pytest.raises(StorageFailed, match=str(path)) as caught:
        await wf.run(1, storage=storage)
    assert isinstance(caught.value, CheckpointsError)
    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)
    await storage.aclose()


async def test_a_folder_that_is_missing_is_told_by_reads_and_lists_alike(tmp_path: Path) -> None:
    storage, run = FileStorage(tmp_path / "nowhere" / "runs.sqlite3"), new_run_id()
    for call in (storage.get_latest(run), storage.list_runs(), storage.delete_run(run), storage.read_answers(run)):
        with pytest.raises(StorageFailed, match="nowhere"):
            await call


async def test_a_server_that_is_away_is_an_outage(postgres_alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "CONNECT_TIMEOUT", 0.0)
    storage = DatabaseStorage(postgres_alias)
    nowhere = {"host": "127.0.0.1", "port": 1, "connect_timeout": 2}
    monkeypatch.setattr(storage, "_open", lambda: PostgresDatabase(nowhere, scripts_for(POSTGRES, storage.encryptor)))
    for call in (storage.get_latest(new_run_id()), storage.save(checkpoint(new_run_id())), storage.due()):
        with pytest.raises(StorageFailed) as caught:
            await call
        assert isinstance(caught.value.__cause__, psycopg.OperationalError)
        assert storage.is_outage(caught.value)
        assert is_outage(caught.value)
        assert status_for(caught.value) == 503
    await storage.aclose()


async def test_an_error_of_the_caller_stays_what_it_is(tmp_path: Path) -> None:
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        with pytest.raises(ValueError, match="not a JSON value"):
            await storage.save(checkpoint(new_run_id(), body={"state": object()}))


def test_a_transaction_counts_where_it_is_not_above_the_bound():
    mine = TransactionMeter()
    for seconds in (0.0, BOUNDS[0], 0.0011, 99.0):
        mine.record(3, seconds)
    read = mine.read()
    assert (read.transactions, read.scripts) == (4, 12)
    assert read.counts == (2, 1, *[0] * (len(BOUNDS) - 2), 1)


async def test_what_is_committed_is_metered(tmp_path: Path):
    before, storage, run = meter.read(), FileStorage(tmp_path / "runs.sqlite3"), new_run_id()
    await storage.commit(started(run))
    await storage.commit(Commit(run=run, checkpoint=checkpoint(run, 1)))
    await storage.aclose()
    after = meter.read()
    assert after.scripts - before.scripts >= 2
    assert after.transactions - before.transactions >= 1
    assert after.seconds > before.seconds
