"""A checkpoint's facts: bound to it, from before there were any, and handed over by the manager."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from checkpoints.conformance.worlds import checkpoint
from checkpoints.errors import Damaged, InvalidValue
from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.memory import MemoryStorage
from checkpoints.rules import row_of

FACTS = {"tokens": 812, "model": "small"}


def altered(path: Path, sql: str, *params: Any) -> None:
    """Change a file behind its storage's back."""
    with sqlite3.connect(path) as connection:
        connection.execute(sql, params)
    connection.close()


@pytest.mark.parametrize("stored", [None, '{"tokens":1,"model":"small"}', '{"tokens":812', "[]", "{}"])
async def test_altered_facts_are_found_when_the_checkpoint_is_read(tmp_path: Path, stored: str | None) -> None:
    run, saved = new_run_id(), checkpoint(run_id := new_run_id(), facts=FACTS)
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        await storage.save(saved)
        altered(storage.path, "UPDATE checkpoints_checkpoint SET facts=?", stored)
        assert len(await storage.list_checkpoints(run_id)) == 1
        with pytest.raises(Damaged):
            await storage.load(run_id, saved.id)
        with pytest.raises(Damaged):
            await storage.get_latest(run_id)
        assert await storage.get_latest(run) is None


async def test_facts_that_cannot_be_read_leave_the_list_whole(tmp_path: Path) -> None:
    run = new_run_id()
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        for n in (1, 2):
            await storage.save(checkpoint(run, n, facts=FACTS))
        altered(storage.path, "UPDATE checkpoints_checkpoint SET facts='no JSON' WHERE n=2")
        bad, good = await storage.list_checkpoints(run)
        assert (bad.clean, bad.flaw, bad.facts) == (False, "its metadata cannot be read", {})
        assert (good.clean, good.facts) == (True, FACTS)


def test_a_checkpoint_without_facts_is_bound_as_before_there_were_any() -> None:
    saved = checkpoint(new_run_id(), created=datetime.now(UTC)).model_copy(update={"id": "c", "run": "r"})
    assert row_of(saved) == b'["c","r",1,null,"expense","v1","native",null,"step"]'
    told = saved.model_copy(update={"facts": FACTS})
    assert row_of(told) == b'["c","r",1,null,"expense","v1","native",null,"step",{"tokens":812,"model":"small"}]'


async def test_a_file_from_before_there_were_facts_is_read_and_gets_them(tmp_path: Path) -> None:
    run, path = new_run_id(), tmp_path / "runs.sqlite3"
    old = checkpoint(run)
    async with FileStorage(path) as storage:
        await storage.save(old)
    altered(path, "ALTER TABLE checkpoints_checkpoint DROP COLUMN facts")
    altered(path, "ALTER TABLE checkpoints_answer DROP COLUMN digest")
    altered(path, "DROP INDEX run_to_take")
    altered(path, "DROP TABLE checkpoints_leader")
    for later in ("for_workers", "priority", "ready_at"):
        altered(path, f"ALTER TABLE checkpoints_run DROP COLUMN {later}")
    altered(path, "PRAGMA user_version=2")
    async with FileStorage(path) as storage:
        loaded = await storage.load(run, old.id)
        assert (loaded.body, loaded.facts) == (old.body, {})
        await storage.save(checkpoint(run, 2, parent=old.id, facts=FACTS))
        assert [info.facts for info in await storage.list_checkpoints(run)] == [FACTS, {}]


async def test_a_manager_saves_facts_beside_a_checkpoint() -> None:
    run, manager = new_run_id(), CheckpointManager(MemoryStorage())
    await manager.save(checkpoint(run, facts={"old": 1}), facts=FACTS)
    await manager.save(checkpoint(run, 2, facts={"own": 2}))
    await manager.save(checkpoint(run, 3, facts={"own": 3}), facts={})
    assert [info.facts for info in await manager.list_checkpoints(run)] == [{}, {"own": 2}, FACTS]
    with pytest.raises(InvalidValue, match="facts: at most 4000 bytes"):
        await manager.save(checkpoint(run, 4), facts={"a": "x" * 4000})


async def test_a_restored_run_has_the_facts_of_the_checkpoint_it_was_taken_back_to() -> None:
    run, manager = new_run_id(), CheckpointManager(MemoryStorage())
    first = checkpoint(run, facts=FACTS)
    await manager.save(first)
    await manager.save(checkpoint(run, 2, parent=first.id, facts={"tokens": 1}))
    assert (await manager.restore(run, first.id)).facts == FACTS
