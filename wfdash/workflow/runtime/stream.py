"""``run_stream``: a run as an async iterator of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from checkpoints.records import Checkpoint, EventDraft
from wfdash.contract import Outcome
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.call import PreparedRun, Show


class RunStream(AsyncIterator[EventDraft]):
    """Yields events in order, each only after it was committed. ``checkpoint`` is the one current at that event.

    The run starts with the first ``async for`` and is stopped by ``aclose`` (or ``async with``): what was committed
    stays and can be resumed. Streamed text comes as events of kind ``stream``, which are not stored.
    """

    def __init__(self, prepare: Callable[[Show], Awaitable[PreparedRun]]) -> None:
        self.checkpoint: Checkpoint | None = None
        self._prepare = prepare
        self._queue: asyncio.Queue[tuple[EventDraft, Checkpoint | None] | None] = asyncio.Queue()
        self._task: asyncio.Task[Outcome] | None = None
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        """How the call ended; there once the iteration is over."""
        if self._outcome is None:
            raise InvalidCall("the run is not over: iterate to the end before reading .outcome")
        return self._outcome

    async def __anext__(self) -> EventDraft:
        """Return the next event."""
        if self._task is None:
            self._task = asyncio.create_task(self._go())
        item = await self._queue.get()
        if item is None:
            self._queue.put_nowait(None)
            self._outcome = await self._task
            self.checkpoint = self._outcome.checkpoint
            raise StopAsyncIteration
        event, self.checkpoint = item[0], item[1] or self.checkpoint
        return event

    async def _go(self) -> Outcome:
        try:
            ready = await self._prepare(lambda event, checkpoint: self._queue.put_nowait((event, checkpoint)))
            return await ready.go()
        finally:
            self._queue.put_nowait(None)

    async def aclose(self) -> None:
        """Stop driving the run."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def __aenter__(self) -> RunStream:
        """Use it in ``async with`` to be sure that it stops."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop driving the run."""
        await self.aclose()
