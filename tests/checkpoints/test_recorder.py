from __future__ import annotations

import asyncio

import pytest

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey, RunId, new_run_id
from checkpoints.memory import MemoryStorage
from checkpoints.recorder import BoundRecorder
from checkpoints.records import Commit, Phase, Standing
from checkpoints.storage import Recorder
from tests.conformance.worlds import asking, checkpoint, started


async def parked(storage: MemoryStorage, *keys: str) -> RunId:
    """Return a run that waits for answers."""
    run = new_run_id()
    await storage.commit(asking(run, *keys))
    return run


async def test_it_is_what_an_engine_expects() -> None:
    assert isinstance(BoundRecorder(MemoryStorage(), new_run_id()), Recorder)


async def test_a_commit_is_recorded_and_told() -> None:
    storage, run, told = MemoryStorage(), new_run_id(), []
    recorder = BoundRecorder(storage, run, committed=lambda run, seq: told.append((run, seq)))
    await recorder.commit(Commit(run=run, checkpoint=checkpoint(run), events=(EventKind.CUSTOM.draft(),)))
    assert told == [(run, 1)]
    assert recorder.seq == 1


async def test_a_lost_claim_ends_the_recording() -> None:
    storage, run = MemoryStorage(), new_run_id()
    await storage.commit(started(run))
    claim = await storage.claim(run, worker="w", ttl=30)
    recorder = BoundRecorder(storage, run, claim)
    await recorder.commit(Commit(run=run, standing=Standing(phase=Phase.PAUSED)))
    with pytest.raises(ClaimLost):
        await recorder.commit(Commit(run=run))


async def test_each_answer_is_handed_out_once() -> None:
    storage = MemoryStorage()
    run = await parked(storage, "a", "b", "c")
    recorder = BoundRecorder(storage, run, poll=60)
    await storage.answer(run, RequestKey("c"), 0)
    recorder.handed_out(await storage.read_answers(run))
    await storage.answer(run, RequestKey("a"), 1)
    assert {key: answer.value for key, answer in (await recorder.answers()).items()} == {"a": 1}
    waiting = asyncio.create_task(recorder.answers())
    await asyncio.sleep(0)
    await storage.answer(run, RequestKey("b"), 2)
    recorder.wake()
    assert {key: answer.value for key, answer in (await waiting).items()} == {"b": 2}


async def test_a_lost_bell_only_costs_time() -> None:
    storage = MemoryStorage()
    run = await parked(storage, "a")
    recorder = BoundRecorder(storage, run, poll=0.01)
    waiting = asyncio.create_task(recorder.answers())
    await asyncio.sleep(0)
    await storage.answer(run, RequestKey("a"), 1)
    assert list(await asyncio.wait_for(waiting, 60)) == ["a"]


async def test_waiting_ends_if_it_is_cancelled_as_it_is_woken() -> None:
    storage = MemoryStorage()
    recorder = BoundRecorder(storage, await parked(storage, "a"), poll=60)
    waiting = asyncio.create_task(recorder.answers())
    await asyncio.sleep(0.001)
    recorder.wake()
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=5)
    assert waiting.cancelled()
