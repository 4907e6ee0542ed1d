from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from checkpoints.conformance.worlds import asking, checkpoint
from checkpoints.errors import Conflict, NotFound
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.memory import MemoryStorage


async def fill(storage: MemoryStorage, run: RunId, count: int) -> list[int]:
    """Save checkpoints and return the n of those that are there, oldest first."""
    for n in range(1, count + 1):
        await storage.save(checkpoint(run, n))
    return [info.n for info in reversed(await storage.list_checkpoints(run, limit=count))]


def test_loops_in_several_threads_share_one_storage() -> None:
    storage, runs = MemoryStorage(), [new_run_id() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda run: asyncio.run(fill(storage, run, 25)), runs))
    assert found == [list(range(1, 26))] * 8
    assert {info.id for info in asyncio.run(storage.list_runs())} == set(runs)


async def test_two_storages_share_nothing() -> None:
    run, one, other = new_run_id(), MemoryStorage(), MemoryStorage()
    await one.save(checkpoint(run))
    assert await other.get_latest(run) is None


async def test_closing_it_keeps_the_runs() -> None:
    run = new_run_id()
    async with MemoryStorage() as storage:
        await storage.save(checkpoint(run))
    assert [info.n for info in await storage.list_checkpoints(run)] == [1]


async def test_an_answer_is_accepted_once() -> None:
    storage, run, key = MemoryStorage(), new_run_id(), RequestKey("k")
    await storage.commit(asking(run, "k"))
    with pytest.raises(NotFound):
        await storage.answer(run, RequestKey("other"), 1)
    await storage.answer(run, key, 1, by="ana")
    with pytest.raises(Conflict, match="by ana"):
        await storage.answer(run, key, 2)
    assert (await storage.read_answers(run))[key].value == 1


async def test_a_refused_commit_leaves_nothing_behind() -> None:
    storage, run = MemoryStorage(), new_run_id()
    await storage.save(checkpoint(run, 1))
    with pytest.raises(Conflict):
        await storage.commit(asking(run, "k").model_copy(update={"checkpoint": checkpoint(run, 1)}))
    assert not await storage.read_events(run)
    assert (await storage.read_run(run)).n == 1
