"""Bytes of stored checkpoints change: no resume from anything but what was written, and none from an older one."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from django.db import DatabaseError, connections
from psycopg import errors

from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import Damaged
from checkpoints.file import FileStorage
from tests.faults.corruption.flips import fill, flip_chunks, flip_pages, flip_rows

SEED = 20261121


async def test_no_changed_byte_of_a_row_goes_into_a_resume(tmp_path: Path) -> None:
    seen, wrong = await flip_rows(tmp_path / "runs.sqlite3", random.Random(SEED))
    assert wrong == []
    assert seen["said"] > 300


async def test_no_changed_byte_of_big_content_goes_into_a_resume(tmp_path: Path) -> None:
    seen, wrong = await flip_chunks(tmp_path / "runs.sqlite3", random.Random(SEED), flips=200)
    assert wrong == []
    assert seen["said"] > 190  # a few chunks belong to the older ones alone


async def test_no_changed_byte_of_the_file_goes_into_a_resume(tmp_path: Path) -> None:
    seen, wrong = await flip_pages(tmp_path / "runs.sqlite3", random.Random(SEED), flips=60)
    assert wrong == []
    assert seen.total() == 60


@pytest.mark.parametrize("column", ["reason", "created"])
async def test_a_row_that_cannot_be_read_is_listed_as_damaged(tmp_path: Path, column: str) -> None:
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        run = await fill(storage)
        connection = sqlite3.connect(storage.path, isolation_level=None)
        connection.execute(f"UPDATE checkpoints_checkpoint SET {column}='?' WHERE n=3")
        connection.close()
        assert [(info.n, info.clean) for info in await storage.list_checkpoints(run)] == [
            (3, False),
            (2, True),
            (1, True),
        ]
        with pytest.raises(Damaged, match="metadata cannot be read"):
            await storage.get_latest(run)


async def test_text_that_is_no_text_any_more_is_damage_and_no_outage(tmp_path: Path) -> None:
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        run = await fill(storage)
        connection = sqlite3.connect(storage.path, isolation_level=None)
        connection.execute("UPDATE checkpoints_checkpoint SET body=CAST(body || x'ff' AS TEXT) WHERE n=3")
        with pytest.raises(Damaged, match="does not match its digest"):
            await storage.get_latest(run)
        assert not (await storage.list_checkpoints(run))[0].clean
        connection.execute("UPDATE checkpoints_run SET input=CAST(x'22ff22' AS TEXT)")
        connection.close()
        with pytest.raises(Damaged, match="no text any more"):
            await storage.read_run(run)


@pytest.mark.parametrize(
    ("kind", "outage"),
    [("DataCorrupted", False), ("IndexCorrupted", False), ("DiskFull", True), ("AdminShutdown", True)],
)
def test_a_page_that_postgresql_cannot_read_any_more_is_no_outage(postgres_alias: str, kind: str, outage: bool) -> None:
    storage, error = DatabaseStorage(postgres_alias), getattr(errors, kind)("said so")
    assert storage.is_outage(error) is outage
    with pytest.raises(DatabaseError) as raised, connections[postgres_alias].wrap_database_errors:
        raise error
    assert storage.is_outage(raised.value) is outage, "as Django raises it"


async def test_what_was_written_before_content_was_bound_to_its_row_can_be_read(tmp_path: Path) -> None:
    from checkpoints.content.chunks import with_digest

    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        run = await fill(storage)
        written = await storage.get_latest(run)
        connection = sqlite3.connect(storage.path, isolation_level=None)
        for rowid, body in connection.execute("SELECT rowid, body FROM checkpoints_checkpoint").fetchall():
            old = with_digest(body[41:].encode())
            connection.execute("UPDATE checkpoints_checkpoint SET body=? WHERE rowid=?", (old, rowid))
        connection.close()
        assert await storage.get_latest(run) == written
