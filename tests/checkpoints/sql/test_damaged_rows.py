"""A row that cannot be read hides nothing but itself, and is never read as something else."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from checkpoints.conformance.worlds import asking, checkpoint, question
from checkpoints.errors import Damaged
from checkpoints.events import EventKind
from checkpoints.file import FileStorage
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.records import Commit, Phase
from tests.conformance.conftest import world as world
from tests.conformance.worlds import AnyWorld, DatabaseWorld


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite3"


def change(path: Path, sql: str, *parameters: Any) -> None:
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute(sql, parameters)
    connection.close()


@pytest.mark.parametrize("column", ["phase", "created", "updated", "finished"])
async def test_a_run_that_cannot_be_read_hides_no_other(path: Path, column: str) -> None:
    async with FileStorage(path) as storage:
        runs = [new_run_id() for _ in range(3)]
        for run in runs:
            await storage.save(checkpoint(run))
        change(path, f"UPDATE checkpoints_run SET {column}='nonsense' WHERE id=?", runs[1])
        found = {info.id: info for info in await storage.list_runs()}
        assert found.keys() == {*runs}
        assert [found[run].flaw for run in runs] == ["", "its metadata cannot be read", ""]
        assert found[runs[1]].phase is Phase.FAILED
        assert found[runs[0]].phase is Phase.READY


async def test_an_event_that_cannot_be_read_hides_no_other(path: Path) -> None:
    async with FileStorage(path) as storage:
        run = new_run_id()
        for n in range(3):
            await storage.commit(Commit(run=run, events=(EventKind.CUSTOM.draft("s", name="n", data=n),)))
        change(path, """UPDATE checkpoints_event SET data='{"name": "n", "da' WHERE seq=2""")
        first, damaged, last = await storage.read_events(run)
        assert (first.data["data"], first.flaw, last.data["data"], last.flaw) == (0, "", 2, "")
        assert (damaged.seq, damaged.kind, damaged.data) == (2, "custom", {})
        assert damaged.flaw
        assert "flaw" not in first.model_dump()


async def answered(storage: FileStorage) -> tuple[RunId, str]:
    run = new_run_id()
    commit = asking(run, "k")
    await storage.commit(commit)
    await storage.answer(run, RequestKey("k"), {"action": "approve"}, by="ana")
    assert commit.checkpoint is not None
    return run, commit.checkpoint.id


async def test_an_answer_that_cannot_be_read_stops_its_run_until_it_is_asked_again(path: Path) -> None:
    async with FileStorage(path) as storage:
        (run, head), (other, _) = await answered(storage), await answered(storage)
        request = "SELECT id FROM checkpoints_humanrequest WHERE run_id=?"
        change(path, f"UPDATE checkpoints_answer SET value='{{\"act' WHERE request_id=({request})", run)
        with pytest.raises(Damaged, match="asks again") as caught:
            await storage.read_answers(run)
        assert caught.value.facts == {"run": run, "key": "k"}
        assert (await storage.read_answers(other))[RequestKey("k")].by == "ana"
        await CheckpointManager(storage).restore(run, head)  # type: ignore[arg-type]
        assert await storage.read_answers(run) == {}


@pytest.mark.parametrize("format_", [0, -1, "x"])
async def test_a_format_that_no_code_writes_is_damage(path: Path, format_: Any) -> None:
    async with FileStorage(path) as storage:
        run = new_run_id()
        await storage.save(checkpoint(run))
        change(path, "UPDATE checkpoints_checkpoint SET format=?", format_)
        with pytest.raises(Damaged):
            await storage.get_latest(run)
        assert len(await storage.list_checkpoints(run)) == 1


async def test_a_counter_that_is_behind_its_events_is_damage_that_names_the_way_out(path: Path) -> None:
    async with FileStorage(path) as storage:
        run, fork = new_run_id(), new_run_id()
        event = EventKind.CUSTOM.draft(name="n")
        saved = checkpoint(run)
        await storage.commit(Commit(run=run, checkpoint=saved, events=(event, event)))
        change(path, "UPDATE checkpoints_run SET seq=0")
        with pytest.raises(Damaged, match="fork"):
            await storage.commit(Commit(run=run, events=(event,)))
        await storage.fork(run, saved.id, fork)
        assert await storage.commit(Commit(run=fork, events=(event,))) == 1


async def altered(world: AnyWorld, run: RunId, sql: str) -> None:
    """Change the rows of a run's answer behind the storage's back."""
    if isinstance(world, DatabaseWorld):
        await world._do(lambda: connections[world.alias].cursor().execute(sql.replace("?", "%s"), [run]))
    else:
        world._do(sql, run)


OWN = "WHERE request_id IN (SELECT id FROM checkpoints_humanrequest WHERE run_id=?)"
ALTERATIONS = {
    "value": f'UPDATE checkpoints_answer SET value=\'{{"action":"reject"}}\' {OWN}',
    "at": f"UPDATE checkpoints_answer SET at='2020-01-01 00:00:00.000000+00:00' {OWN}",
    "key": "UPDATE checkpoints_humanrequest SET key='other' WHERE run_id=?",
}


@pytest.mark.parametrize("part", ALTERATIONS)
async def test_an_answer_that_was_changed_is_damage(world: AnyWorld, part: str) -> None:
    run, key = new_run_id(), RequestKey("k")
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), opened=(question("k"),)))
    await world.storage.answer(run, key, {"action": "approve"})
    assert (await world.storage.read_answers(run))[key].value == {"action": "approve"}
    sql = ALTERATIONS[part].replace("+00:00'", "'") if not isinstance(world, DatabaseWorld) else ALTERATIONS[part]
    await altered(world, run, sql)
    with pytest.raises(Damaged, match="asks again"):
        await world.storage.read_answers(run)
    with pytest.raises(Damaged):
        await world.storage.read_past_answers(run)


async def test_who_gave_an_answer_is_bound_to_it(path: Path) -> None:
    async with FileStorage(path) as storage:
        run, _ = await answered(storage)
        change(path, "UPDATE checkpoints_answer SET by_id='eve'")
        with pytest.raises(Damaged):
            await storage.read_answers(run)


async def test_a_rule_that_is_put_on_an_answer_is_noticed(world: AnyWorld) -> None:
    if not isinstance(world, DatabaseWorld):
        return  # A file of the library has no rules.
    run, key = new_run_id(), RequestKey("k")
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), opened=(question("k"),)))
    await world.storage.answer(run, key, "yes")
    await altered(world, run, f"UPDATE checkpoints_answer SET rule=1 {OWN}")
    with pytest.raises(Damaged):
        await world.storage.read_answers(run)


async def test_an_answer_from_before_there_were_digests_is_read(world: AnyWorld) -> None:
    run, key = new_run_id(), RequestKey("k")
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run), opened=(question("k"),)))
    await world.storage.answer(run, key, "yes")
    await altered(world, run, f"UPDATE checkpoints_answer SET digest='' {OWN}")
    assert (await world.storage.read_answers(run))[key].value == "yes"


@pytest.mark.parametrize("column", ["n", "epoch", "attempts", "priority", "ready_at"])
async def test_a_run_with_counters_that_are_no_numbers_keeps_no_worker_from_the_others(path: Path, column: str) -> None:
    async with FileStorage(path) as storage:
        runs = [new_run_id() for _ in range(3)]
        for run in runs:
            await storage.save(checkpoint(run))
        change(path, "UPDATE checkpoints_run SET for_workers=1")
        change(path, f"UPDATE checkpoints_run SET {column}='x' WHERE id=?", runs[0])
        claimed = [await storage.claim_due(worker="w", ttl=30, limit=1) for _ in runs]
        assert {one.run for some in claimed for one in some} >= {*runs[1:]}
