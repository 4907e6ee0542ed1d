"""What every ``CheckpointStorage`` promises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from checkpoints.errors import Conflict, Damaged, Incompatible, NotFound
from checkpoints.ids import new_checkpoint_id, new_run_id
from checkpoints.manager import CheckpointManager
from checkpoints.records import FORMAT, Reason, Request
from checkpoints.storage import CheckpointStorage, Claims, Journal
from tests.conformance.worlds import DatabaseWorld, World, checkpoint

BIG: dict[str, Any] = {
    "state": {
        "log": [{"i": i, "text": f"entry {i} " * 5} for i in range(400)],
        "text": "ünïcode and\nnewlines, " * 500,
        "deep": {"a": {"b": {"c": ["x" * 3000, {"d": None}]}}},
        "small": 1,
        "z": 0.1,
        "a": 2**80,
        "nul": "\x00",
    },
    "position": {},
}


async def test_a_storage_is_all_three_ports(world: World) -> None:
    assert isinstance(world.storage, CheckpointStorage)
    assert isinstance(world.storage, Journal)
    assert isinstance(world.storage, Claims)


@pytest.mark.parametrize("body", [{}, {"state": {"a": [1, None, "é"]}}, BIG], ids=["empty", "small", "big"])
async def test_what_is_saved_is_loaded(world: World, body: dict[str, Any]) -> None:
    run = new_run_id()
    request = Request(key="k", step="s", card={"b": 1, "a": 2}, by=("finance",))
    saved = checkpoint(run, body=body, requests=(request,), reason=Reason.PAUSE, step="s", label="here")
    assert await world.storage.save(saved) == saved.id
    loaded = await world.storage.load(run, saved.id)
    assert loaded.model_copy(update={"size": 0, "waiting": 0}) == saved
    assert loaded.size > 0
    assert loaded.waiting == 1
    assert list(loaded.requests[0].card) == ["b", "a"]


async def test_what_goes_in_and_comes_out_are_copies(world: World) -> None:
    run, body = new_run_id(), {"state": {"list": [1]}}
    saved = checkpoint(run, body=body)
    await world.storage.save(saved)
    body["state"]["list"].append(2)
    first = await world.storage.load(run, saved.id)
    first.body["state"]["list"].append(3)
    assert (await world.storage.load(run, saved.id)).body == {"state": {"list": [1]}}


async def test_the_latest_is_the_one_with_the_highest_n(world: World) -> None:
    run = new_run_id()
    assert await world.storage.get_latest(run) is None
    for n in (1, 3, 2):
        await world.storage.save(checkpoint(run, n))
    latest = await world.storage.get_latest(run)
    assert latest is not None
    assert latest.n == 3


async def test_a_second_checkpoint_with_the_same_n_is_a_conflict(world: World) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run))
    with pytest.raises(Conflict):
        await world.storage.save(checkpoint(run))
    assert len(await world.storage.list_checkpoint_ids(run)) == 1


async def test_of_two_savers_at_once_one_wins(world: World) -> None:
    run = new_run_id()
    outcomes = await asyncio.gather(*(world.storage.save(checkpoint(run)) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(o, str) for o in outcomes) == 1
    assert sum(isinstance(o, Conflict) for o in outcomes) == 7


async def test_what_is_no_json_is_refused(world: World) -> None:
    run = new_run_id()
    for bad in (float("nan"), float("inf"), object()):
        with pytest.raises(ValueError, match="JSON"):
            await world.storage.save(checkpoint(run, body={"state": {"a": bad}}))
    assert await world.storage.get_latest(run) is None


async def test_a_checkpoint_of_another_run_is_not_found(world: World) -> None:
    mine, yours = new_run_id(), new_run_id()
    saved = checkpoint(mine)
    await world.storage.save(saved)
    await world.storage.save(checkpoint(yours))
    with pytest.raises(NotFound):
        await world.storage.load(yours, saved.id)
    with pytest.raises(NotFound):
        await world.storage.load(mine, new_checkpoint_id())
    assert not await world.storage.delete(yours, saved.id)
    with pytest.raises(NotFound):
        await world.storage.fork(yours, saved.id, new_run_id())


async def test_lists_are_newest_first_in_pages(world: World) -> None:
    run = new_run_id()
    saved = [checkpoint(run, n) for n in range(1, 8)]
    for each in saved:
        await world.storage.save(each)
    first = await world.storage.list_checkpoints(run, limit=3)
    second = await world.storage.list_checkpoints(run, before=first[-1].n, limit=3)
    assert [info.n for info in [*first, *second]] == [7, 6, 5, 4, 3, 2]
    assert first[0] == (await world.storage.load(run, first[0].id)).info()
    assert list(await world.storage.list_checkpoint_ids(run)) == [c.id for c in reversed(saved)]


async def test_a_deleted_checkpoint_is_gone(world: World) -> None:
    run = new_run_id()
    saved = checkpoint(run)
    await world.storage.save(saved)
    assert await world.storage.delete(run, saved.id)
    assert not await world.storage.delete(run, saved.id)
    assert await world.storage.get_latest(run) is None


async def test_a_fork_has_the_content_and_its_own_life(world: World) -> None:
    run, other, third = new_run_id(), new_run_id(), new_run_id()
    origin = checkpoint(run, body=BIG)
    await world.storage.save(origin)
    fork = await world.storage.fork(run, origin.id, other)
    assert (fork.run, fork.n, fork.parent, fork.reason) == (other, 1, origin.id, Reason.FORK)
    assert fork.body == BIG
    await world.storage.delete(run, origin.id)
    await world.storage.save(checkpoint(other, 2))
    assert (await world.storage.load(other, fork.id)).body == BIG
    assert (await world.storage.fork(other, fork.id, third)).body == BIG
    assert await world.storage.list_checkpoint_ids(run) == []


async def test_a_fork_under_a_known_run_id_is_a_conflict(world: World) -> None:
    run, other = new_run_id(), new_run_id()
    origin = checkpoint(run)
    await world.storage.save(origin)
    await world.storage.save(checkpoint(other))
    with pytest.raises(Conflict):
        await world.storage.fork(run, origin.id, other)


async def test_runs_in_one_storage_never_mix(world: World) -> None:
    runs = [new_run_id() for _ in range(20)]
    for n in range(1, 6):
        await asyncio.gather(*(world.storage.save(checkpoint(run, n, body={"state": {"mine": run}})) for run in runs))
    for run in runs:
        latest = await world.storage.get_latest(run)
        assert latest is not None
        assert (latest.run, latest.n, latest.body) == (run, 5, {"state": {"mine": run}})
        assert {info.run for info in await world.storage.list_checkpoints(run)} == {run}


async def test_a_changed_byte_is_damage(database: DatabaseWorld) -> None:
    run = new_run_id()
    older, newer = checkpoint(run, 1), checkpoint(run, 2)
    await database.storage.save(older)
    await database.storage.save(newer)
    await database.damage(run, newer.id)
    with pytest.raises(Damaged):
        await database.storage.get_latest(run)
    with pytest.raises(Damaged):
        await database.storage.load(run, newer.id)
    assert (await database.storage.load(run, older.id)).body == older.body
    assert [info.clean for info in await database.storage.list_checkpoints(run)] == [False, True]


async def test_recovery_finds_the_newest_good_one(database: DatabaseWorld) -> None:
    run = new_run_id()
    saved = [checkpoint(run, n) for n in (1, 2, 3)]
    for each in saved:
        await database.storage.save(each)
    for bad in saved[1:]:
        await database.damage(run, bad.id)
    with pytest.raises(Damaged, match="3, 2"):
        await CheckpointManager(database.storage).recover(run)
    recovered = await CheckpointManager(database.storage).recover(run, accept_older=True)
    assert recovered is not None
    assert (recovered.checkpoint.parent, recovered.checkpoint.n) == (saved[0].id, 4)
    assert [info.n for info in recovered.skipped] == [3, 2]


async def test_a_newer_format_is_refused_and_not_called_damaged(database: DatabaseWorld) -> None:
    run = new_run_id()
    await database.storage.save(checkpoint(run, format=FORMAT + 1))
    with pytest.raises(Incompatible, match="upgrade"):
        await database.storage.get_latest(run)
    assert [info.clean for info in await database.storage.list_checkpoints(run)] == [True]


async def test_a_changed_or_lost_chunk_is_damage(database: DatabaseWorld) -> None:
    for harm in (database.damage_chunk, database.lose_chunk):
        run = new_run_id()
        saved = checkpoint(run, body=BIG)
        await database.storage.save(saved)
        await harm(run)
        with pytest.raises(Damaged):
            await database.storage.load(run, saved.id)
