"""``run_stream``: a run as an async iterator of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress

from checkpoints.records import Checkpoint, EventDraft
from wfdash.contract import Outcome
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.call import Prepare
from wfdash.workflow.runtime.recorders import ClaimingRecorder, UnreadEvents


class RunStream(AsyncIterable[EventDraft]):
    """Yields events in order, each only after it was committed. ``checkpoint`` is the one current at that event.

    The run starts with the first event that is asked for, and ends with the loop: however ``async for`` is left
    (``break``, an exception, a timeout, a cancellation), the run is stopped. ``async with`` also waits until it has
    stopped. What was committed stays and can be resumed. A reader that is slow holds the run back: no step and no call
    begins while something is unread. Streamed text comes as events of kind ``stream``, which are not stored; so much of
    it that a million characters are unread is ``cut``.

    It is iterated once: ``InvalidCall`` for a second iterator, and after ``aclose``.
    """

    def __init__(self, prepare: Prepare) -> None:
        self.checkpoint: Checkpoint | None = None
        self._prepare = prepare
        self._unread = UnreadEvents()
        self._task: asyncio.Task[Outcome] | None = None
        self._claiming: ClaimingRecorder | None = None
        self._outcome: Outcome | None = None
        self._iterated = self._closed = self._reading = False

    @property
    def outcome(self) -> Outcome:
        """How the call ended; there once the iteration is over."""
        if self._outcome is None:
            raise InvalidCall("the run is not over: iterate to the end before reading .outcome")
        return self._outcome

    def __aiter__(self) -> AsyncIterator[EventDraft]:
        """Return its one iterator. The run is stopped when that is thrown away."""
        if self._iterated:
            raise InvalidCall("a stream has one iterator: call run_stream again, with the run's checkpoint or id")
        if self._closed:
            raise InvalidCall("the stream is closed: call run_stream again, with the run's checkpoint or id")
        self._iterated = True
        return StreamedEvents(self)

    async def read(self) -> EventDraft | None:
        """Return the next event; None at the end. A reader that is cancelled stops the run."""
        if self._reading:
            raise InvalidCall("another task is reading this stream")
        if self._task is None:
            if self._closed:
                return None
            self._task = asyncio.create_task(self._go())
            self._task.add_done_callback(self._unread.end)
        self._reading = True
        try:
            found = await self._unread.get()
        except asyncio.CancelledError:
            await self._stop(self._task)
            raise
        finally:
            self._reading = False
        if self._closed:
            return None
        if found is not None:
            self.checkpoint = found[1] or self.checkpoint
            return found[0]
        self._take_outcome(await self._task)
        return None

    async def _go(self) -> Outcome:
        drive = await self._prepare(self._unread)
        self._claiming = drive.claiming
        return await drive.go()

    def abandon(self) -> None:
        """Stop the run soon: no one reads on. From any thread, and without an event loop."""
        self._closed = True
        if self._task is not None and not self._task.done():
            if self._claiming is not None:
                self._claiming.end_soon()
            with suppress(RuntimeError):  # Its event loop is closed.
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def aclose(self) -> None:
        """Stop driving the run; returns once it has stopped. Raises what its end raised."""
        self._closed = True
        if self._task is not None and not self._task.done():
            await self._stop(self._task)
            if not self._task.cancelled():
                self._take_outcome(self._task.result())

    async def _stop(self, task: asyncio.Task[Outcome]) -> None:
        self._closed = True
        task.cancel()
        await asyncio.wait({task})

    def _take_outcome(self, outcome: Outcome) -> None:
        self._outcome, self.checkpoint = outcome, outcome.checkpoint

    async def __aenter__(self) -> RunStream:
        """Use it in ``async with`` to be sure that it has stopped."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop driving the run."""
        await self.aclose()


class StreamedEvents(AsyncIterator[EventDraft]):
    """The iterator of a stream. Nothing of the run refers to it: when its loop is left, it is gone."""

    def __init__(self, stream: RunStream) -> None:
        self._stream = stream

    async def __anext__(self) -> EventDraft:
        """Return the next event."""
        event = await self._stream.read()
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Stop driving the run."""
        await self._stream.aclose()

    def __del__(self) -> None:
        """Stop the run if its reader has left."""
        self._stream.abandon()
