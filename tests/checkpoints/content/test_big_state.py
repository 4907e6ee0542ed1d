"""Big content in a database: little is written per step, and what is left out is really there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from checkpoints import models
from checkpoints.errors import ClaimLost, Damaged
from checkpoints.ids import CheckpointId, RunId, new_run_id
from checkpoints.records import Checkpoint, Claim, Commit, Phase, Standing
from tests.conformance.worlds import DatabaseWorld, checkpoint, claimed, started


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def alias(request: pytest.FixtureRequest) -> str:
    """Name each database in turn, once it is ready."""
    return str(request.getfixturevalue(f"{request.param}_alias"))


@pytest_asyncio.fixture
async def database(alias: str) -> AsyncIterator[DatabaseWorld]:
    """Give each database in turn."""
    world = DatabaseWorld(alias)
    yield world
    await world.storage.aclose()


def megabyte() -> dict[str, Any]:
    """Return a state of 200 keys of 5 KB."""
    return {f"key {i:03d}": f"{i:04d} " * 1000 for i in range(200)}


def changed(state: dict[str, Any], n: int) -> dict[str, Any]:
    """Return the state with 1 KB of one key changed, all other values the same objects."""
    key = f"key {n * 7 % 200:03d}"
    return {**state, key: f"{n:08d}" + "x" * 992 + state[key][1000:]}


def holding(run: RunId, n: int, state: dict[str, Any]) -> Checkpoint:
    """Return a checkpoint with that state."""
    return checkpoint(run, n, body={"state": state, "position": {"next": n}})


async def commit_steps(
    world: DatabaseWorld, run: RunId, steps: range, state: dict[str, Any], claim: Claim | None = None
) -> list[Checkpoint]:
    """Commit one checkpoint per step as the engine does; returns them."""
    made = []
    for n in steps:
        state = changed(state, n)
        made.append(holding(run, n, state))
        await world.storage.commit(Commit(run=run, checkpoint=made[-1], frozen=True), claim=claim)
    return made


async def stored_bytes(world: DatabaseWorld, run: RunId) -> int:
    """Return the bytes of the run's content."""

    def count() -> int:
        chunks = models.Chunk.objects.using(world.alias).filter(family=run).values_list("data", flat=True)
        bodies = models.Checkpoint.objects.using(world.alias).filter(run_id=run).values_list("body", flat=True)
        return sum(len(bytes(data)) for data in chunks) + sum(map(len, bodies))

    return await world._do(count)


async def check_all(world: DatabaseWorld, made: list[Checkpoint]) -> None:
    """Load every one and compare its content."""
    for one in made:
        assert (await world.storage.load(one.run, one.id)).body == one.body


async def test_a_step_writes_what_it_changed_and_disk_grows_linearly(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 2), megabyte())
    first = await stored_bytes(database, run)
    made += await commit_steps(database, run, range(2, 12), made[-1].body["state"])
    after_ten = await stored_bytes(database, run) - first
    made += await commit_steps(database, run, range(12, 32), made[-1].body["state"])
    after_thirty = await stored_bytes(database, run) - first
    assert first < 1.2 * 1_000_000
    assert after_ten <= 10 * 8192
    assert after_thirty <= 3.3 * after_ten
    await check_all(database, made)


async def test_content_whose_objects_may_change_is_written_as_it_is_now(database: DatabaseWorld) -> None:
    run, body = new_run_id(), {"state": {"list": ["x" * 3000] * 3, "rest": "y" * 5000}, "position": {}}
    made = []
    for n in range(1, 4):
        body["state"]["list"].append(str(n) * 3000)  # type: ignore[index,union-attr]
        made.append(checkpoint(run, n, body=body).model_copy(deep=True))
        await database.storage.commit(Commit(run=run, checkpoint=checkpoint(run, n, id=made[-1].id, body=body)))
    await check_all(database, made)


async def test_what_was_pruned_away_behind_its_back_is_written_again(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 4), megabyte())
    for one in made:
        await database.storage.delete(run, one.id)
    assert await database.storage.prune(run, []) == 0
    rest = await commit_steps(database, run, range(4, 6), made[-1].body["state"])
    await check_all(database, rest)


async def test_nothing_leans_on_what_is_quarantined(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 3), megabyte())
    await database.damage_chunk(run)
    with pytest.raises(Damaged):
        await database.storage.load(run, made[-1].id)
    rest = await commit_steps(database, run, range(3, 5), made[-1].body["state"])
    await check_all(database, rest)


async def test_a_chunk_that_rotted_is_healed_by_the_same_content(database: DatabaseWorld) -> None:
    run = new_run_id()
    saved = holding(run, 1, megabyte())
    await database.storage.save(saved)
    await database.damage_chunk(run)
    with pytest.raises(Damaged):
        await database.storage.load(run, saved.id)
    again = holding(run, 2, megabyte())
    await database.storage.save(again)
    await check_all(database, [again])


async def test_a_lost_claim_leaves_nothing_remembered(database: DatabaseWorld) -> None:
    run = new_run_id()
    await database.storage.commit(started(run))
    claim = await claimed(database, run)
    made = await commit_steps(database, run, range(1, 3), megabyte(), claim)
    await database.cancel(run)
    with pytest.raises(ClaimLost):
        await commit_steps(database, run, range(3, 4), made[-1].body["state"], claim)
    assert await database.storage.list_checkpoint_ids(run) == [CheckpointId(one.id) for one in reversed(made)]
    assert database.storage._encoder_cache.get(run) is None
    await check_all(database, made)


async def test_another_worker_goes_on_from_what_the_first_one_wrote(database: DatabaseWorld) -> None:
    run, other = new_run_id(), DatabaseWorld(database.alias)
    made = await commit_steps(database, run, range(1, 4), megabyte())
    latest = await other.storage.get_latest(run)
    assert latest is not None
    theirs = await commit_steps(other, run, range(4, 7), latest.body["state"])
    ours = await commit_steps(database, run, range(7, 9), made[-1].body["state"])
    await check_all(database, [*made, *theirs, *ours])
    await other.storage.aclose()


async def test_a_run_that_parks_is_forgotten(database: DatabaseWorld) -> None:
    run = new_run_id()
    made = await commit_steps(database, run, range(1, 3), megabyte())
    assert len(database.storage._encoder_cache) == 1
    parked = Commit(run=run, checkpoint=holding(run, 3, made[-1].body["state"]), standing=Standing(phase=Phase.PAUSED))
    await database.storage.commit(parked)
    assert len(database.storage._encoder_cache) == 0
