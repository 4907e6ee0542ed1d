"""``run_stream`` ends with its reader, is held back by a slow one, and is read once."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from checkpoints.file import FileStorage
from checkpoints.ids import RunId, new_run_id
from checkpoints.manager import CheckpointConfig, CheckpointManager
from checkpoints.memory import MemoryStorage
from tests.workflow.runtime.readers import ENDINGS, Stop, leave
from tests.workflow.world import ListRecorder, finished, flow
from wfdash.workflow import Context, Waiting, Workflow
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime import recorders


class Steps:
    """A chain of short steps that counts those that have begun."""

    def __init__(self, length: int = 30) -> None:
        self.begun = 0
        self.workflow = Workflow("steps")
        step = self.workflow.step(name="s0", start=True)(self.count)
        for number in range(1, length):
            step = self.workflow.step(name=f"s{number}", after=step)(self.count)

    async def count(self, n: int) -> int:
        self.begun += 1
        await asyncio.sleep(0)
        return n + 1


async def turns(count: int = 200) -> None:
    """Let everything that could go on do so."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("managed", [False, True])
async def test_however_its_loop_is_left_the_run_stops_and_can_be_continued(ending: str, managed: bool):
    steps, storage, run = Steps(), MemoryStorage(), new_run_id()
    kept: Any = CheckpointManager(storage, CheckpointConfig.pauses()) if managed else storage
    stream = steps.workflow.run_stream(0, storage=kept, run_id=run)  # Held on to: only its iterator goes.
    await leave(ending, aiter(stream))
    await turns()
    begun = steps.begun
    await turns()
    assert steps.begun == begun < 10
    assert finished(await steps.workflow.run(storage=kept, run_id=run)) == 30


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_next_call_waits_until_the_run_of_a_left_stream_has_stopped(kind: str, tmp_path: Path):
    wf, run, ended = Workflow("slow_to_stop"), new_run_id(), []

    @wf.step(start=True)
    async def slow(ctx: Context) -> int:
        ctx.emit("here")
        try:
            if not ended:
                await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)
        return len(ended)

    storage = MemoryStorage() if kind == "memory" else FileStorage(tmp_path / "runs.sqlite3")
    async with storage:
        async for event in wf.run_stream(None, storage=storage, run_id=run):
            if event.kind == "custom":
                break
        assert finished(await wf.run(storage=storage, run_id=run)) == 2


async def test_a_stream_that_was_left_by_break_stops_without_its_task_going_on():
    steps = Steps()
    async for _ in steps.workflow.run_stream(0):
        break
    gc.collect()
    await turns()
    assert steps.begun <= 1


async def test_a_reader_whose_time_is_up_leaves_once_the_run_has_stopped():
    ended, wf = [], Workflow("sleeps")

    @wf.step(start=True)
    async def sleep() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            async for _ in wf.run_stream(None):
                pass
    assert ended == [True]


async def test_a_stream_in_a_cycle_is_stopped_by_the_garbage_collector():
    steps = Steps()
    events = aiter(steps.workflow.run_stream(0))
    await anext(events)
    cycle: list[Any] = [events]
    cycle.append(cycle)
    del events, cycle
    gc.collect()
    await turns()
    begun = steps.begun
    await turns()
    assert steps.begun == begun <= 1


async def test_async_with_returns_once_the_run_has_stopped():
    ended = []

    async def slow(ctx: Context) -> None:
        try:
            ctx.emit("here")
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    with suppress(Stop):
        async with flow(slow).run_stream(None) as stream:
            async for event in stream:
                if event.kind == "custom":
                    raise Stop
    assert ended == [True]


async def test_a_slow_reader_holds_the_run_back():
    steps = Steps()
    async with steps.workflow.run_stream(0) as stream:
        async for number, event in numbered(aiter(stream)):
            await turns(50)
            if event.kind == "step.started":
                assert steps.begun <= number
            assert steps.begun <= number / 2 + 1
    assert steps.begun == 30


async def test_a_result_is_committed_while_earlier_events_are_unread():
    """Else a call that was made would be of unknown outcome, only because no one has read on."""
    wf, recorder = Workflow("unread"), ListRecorder()

    @wf.step(start=True)
    async def step(ctx: Context) -> int:
        return int(await ctx.call(asyncio.sleep, 0, 1, once=True))

    @wf.step(after=step)
    async def then(n: int) -> int:
        return n

    events = aiter(wf.run_stream(None, storage=recorder))
    async for event in events:
        if event.kind == "call.intended":
            break
    await recorder.until(lambda r: "step.finished" in r.kinds)
    await turns()
    assert [kind for kind in recorder.kinds if kind == "step.finished"] == ["step.finished"]
    assert [event.kind async for event in events][-1] == "run.completed"


async def test_streamed_text_that_no_one_reads_is_bounded_and_said_to_be_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorders, "MOST_PIECES", 4)
    monkeypatch.setattr(recorders, "MOST_TEXT", 1_000)

    async def talk(ctx: Context) -> None:
        for number in range(300):
            ctx.stream(f"{number:<4}")
        await asyncio.sleep(0)
        ctx.emit("said")

    stream = flow(talk).run_stream(None)
    texts = []
    async for event in stream:
        if event.kind == "step.started":
            await turns()
        if event.kind == "stream":
            texts.append((len(event.data["text"]), event.data.get("cut", False)))
    assert len(texts) <= 5
    assert sum(length for length, _ in texts) <= 1_000
    assert finished(stream.outcome) is None


async def test_after_a_cut_the_next_text_says_so():
    unread = recorders.UnreadEvents()
    unread.put_text("a", "x" * recorders.MOST_TEXT, None)
    unread.put_text("a", "lost", None)
    assert (await unread.get())[0].data["text"][:3] == "xxx"
    unread.put_text("a", "there", None)
    unread.put_text("a", "again", None)
    assert [(await unread.get())[0].data for _ in range(2)] == [{"text": "there", "cut": True}, {"text": "again"}]


async def test_pieces_of_text_that_are_read_in_time_stay_pieces():
    async def talk(ctx: Context) -> None:
        for word in ("one", "two", "three"):
            ctx.stream(word)

    wf = flow(talk)
    seen = [event.data["text"] async for event in wf.run_stream(None) if event.kind == "stream"]
    assert seen == ["one", "two", "three"]


async def test_a_second_iterator_is_refused():
    steps = Steps(3)
    stream = steps.workflow.run_stream(0)
    assert [event.kind async for event in stream][-1] == "run.completed"
    with pytest.raises(InvalidCall, match="one iterator"):
        aiter(stream)
    assert finished(stream.outcome) == 3


async def test_two_tasks_cannot_read_one_iterator():
    held = asyncio.Event()

    async def hold() -> None:
        await held.wait()

    events = aiter(flow(hold).run_stream(None))
    reading = asyncio.create_task(drained(events))
    await turns()
    with pytest.raises(InvalidCall, match="another task"):
        await anext(events)
    held.set()
    await reading


async def test_a_closed_stream_is_not_iterated_and_starts_nothing():
    steps = Steps(3)
    stream = steps.workflow.run_stream(0)
    await stream.aclose()
    with pytest.raises(InvalidCall, match="closed"):
        async for _ in stream:
            pass
    events = aiter(steps.workflow.run_stream(0))
    await events.aclose()
    assert [event async for event in events] == []
    assert steps.begun == 0


async def test_closing_from_another_task_ends_the_loop_quietly():
    async def endless() -> None:
        await asyncio.sleep(60)

    stream = flow(endless).run_stream(None)
    reading = asyncio.create_task(drained(aiter(stream)))
    await turns()
    await stream.aclose()
    assert [event.kind for event in await reading] == ["run.started", "step.started"]
    with pytest.raises(InvalidCall, match="not over"):
        _ = stream.outcome


async def test_a_stream_that_waits_for_people_ends_and_another_goes_on():
    wf, storage = Workflow("asks"), MemoryStorage()

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        return str(await ctx.ask("Well?"))

    first = wf.run_stream(None, storage=storage, run_id="r")
    assert [event.kind async for event in first][-1] == "run.waiting"
    assert isinstance(first.outcome, Waiting)
    answers = {first.outcome.request.key: "yes"}
    second = wf.run_stream(answers=answers, storage=storage, run_id=RunId("r"))
    assert [event.kind async for event in second][-1] == "run.completed"


async def numbered(events: AsyncIterator[Any]) -> AsyncIterator[tuple[int, Any]]:
    number = 0
    async for event in events:
        number += 1
        yield number, event


async def drained(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


def test_a_loop_that_is_closed_under_a_stream_is_no_error():
    steps = Steps()
    loop = asyncio.new_event_loop()
    events = aiter(steps.workflow.run_stream(0))
    loop.run_until_complete(anext(events))
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks))
    loop.close()
    del events
    gc.collect()
    assert sys.exc_info() == (None, None, None)
    assert steps.begun <= 1


@pytest.mark.parametrize("when", ["step", "pause", 5])
async def test_the_parent_of_a_checkpoint_that_is_returned_is_the_one_that_was_stored(when: Any):
    storage, run = MemoryStorage(), new_run_id()
    manager = CheckpointManager(storage, CheckpointConfig(when=when))
    async with Steps(length=12).workflow.run_stream(0, storage=manager, run_id=run) as stream:
        seen = {stream.checkpoint.parent async for _ in stream if stream.checkpoint is not None}
    (stored, *_) = await storage.list_checkpoints(run)
    given = stream.outcome.checkpoint
    assert (given.id, given.n, given.parent) == (stored.id, stored.n, stored.parent)
    assert seen <= {None, *await storage.list_checkpoint_ids(run)}
