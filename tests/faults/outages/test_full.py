"""SQLite's own limit (``max_page_count``) as the smallest full disk: a commit fails whole and says so."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from checkpoints.errors import StorageFailed
from checkpoints.events import EventKind
from checkpoints.file import FileStorage
from checkpoints.ids import RunId, WorkflowId, new_checkpoint_id, new_run_id
from checkpoints.recorder import utc_now
from checkpoints.records import Checkpoint, Commit
from checkpoints.sql import sqlite

PAGES = 150
RUNS = 8


def step(run: RunId, n: int) -> Commit:
    named = {"id": new_checkpoint_id(), "run": run, "workflow": WorkflowId("w"), "version": "v"}
    body = {"state": {"n": n, "load": f"{run} {n} " * 100}, "position": {}}
    made = Checkpoint(**named, n=n, created=utc_now(), body=body)
    return Commit(run=run, checkpoint=made, events=tuple(EventKind.CUSTOM.draft(name="n", data=n) for _ in range(3)))


async def fill(storage: FileStorage, run: RunId) -> int:
    """Commit until it is refused; returns how many steps were acknowledged."""
    for n in range(1, 10_000):
        try:
            await storage.commit(step(run, n))
        except StorageFailed as error:
            if "full" not in str(error):
                raise
            return n - 1
    raise AssertionError("the disk never filled")


async def test_commits_on_a_full_disk_fail_whole_and_go_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, plain = [new_run_id() for _ in range(RUNS)], sqlite.PRAGMAS
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        monkeypatch.setattr(sqlite, "PRAGMAS", (*plain, f"PRAGMA max_page_count={PAGES}"))
        kept = await asyncio.gather(*(fill(storage, run) for run in runs))
        assert max(kept) > 1
        check(storage.path, dict(zip(runs, kept, strict=True)))
        await storage.aclose()
        monkeypatch.setattr(sqlite, "PRAGMAS", plain)
        await asyncio.gather(*(storage.commit(step(run, n + 1)) for run, n in zip(runs, kept, strict=True)))
        check(storage.path, {run: n + 1 for run, n in zip(runs, kept, strict=True)})


def check(path: Path, kept: dict[RunId, int]) -> None:
    """Every acknowledged step is there whole, and nothing of any other."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        steps = dict(connection.execute("SELECT run_id, count(*) FROM checkpoints_checkpoint GROUP BY 1"))
        events = dict(connection.execute("SELECT run_id, count(*) FROM checkpoints_event GROUP BY 1"))
        rows = {id_: (seq, n) for id_, seq, n in connection.execute("SELECT id, seq, n FROM checkpoints_run")}
    finally:
        connection.close()
    begun = {run: n for run, n in kept.items() if n}
    assert (steps, events) == (begun, {run: 3 * n for run, n in begun.items()})
    assert rows == {run: (3 * n, n) for run, n in begun.items()}
    assert Counter(steps).total() > 0
