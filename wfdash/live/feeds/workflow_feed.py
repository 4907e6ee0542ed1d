"""The events of workflows for their streams: one high-water mark for all, and each part read and written once.

A viewer is a cursor here, too: it asks for what follows, up to the mark, and is woken when the mark has moved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from checkpoints.database.high_water_mark import HighWaterMark
from wfdash.live.database import DatabaseThreads
from wfdash.live.limits import Limits
from wfdash.queries.history.events import read_span

log = logging.getLogger(__name__)

MAX_PARTS = 16
"""How many parts are kept for others at the same cursor."""


class WorkflowPlace(NamedTuple):
    """A cursor of a workflow, and whether its reader gets values."""

    workflow: str
    after: int
    inspect: bool


class WorkflowPart(NamedTuple):
    """The messages behind a cursor, empty where there are none, and the id up to which that is all."""

    text: str
    reached: int


class WorkflowWatcher(Protocol):
    """A viewer that is woken when there may be more."""

    def wake(self) -> None: ...


Write = Callable[..., str]
"""``write(event, workflow, inspect=...)`` returns the text of an event."""


class WorkflowFeed:
    """All event streams of workflows of this process. Used from the hub's loop alone."""

    def __init__(self, *, front: DatabaseThreads, reader: DatabaseThreads, write: Write, limits: Limits) -> None:
        """``front`` reads the mark, ``reader`` events."""
        self.watchers: set[WorkflowWatcher] = set()
        self.mark = 0
        """The id up to which no event can appear any more."""
        self.loads = 0
        """How many times a thread was asked to read events."""
        self._high_water_mark = HighWaterMark()
        self._parts: dict[WorkflowPlace, asyncio.Task[WorkflowPart]] = {}
        self._changed = asyncio.Event()
        self._front, self._reader, self._write, self._limits = front, reader, write, limits

    def leave(self, watcher: WorkflowWatcher) -> None:
        """Remove a viewer; what was read for it is not kept."""
        self.watchers.discard(watcher)
        if not self.watchers:
            self._parts.clear()

    def notify(self) -> None:
        """Note that some run may have new events."""
        if self.watchers:
            self._changed.set()

    async def serve(self) -> None:
        """Move the mark and wake the watchers, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.look()
            except Exception:
                log.exception("the events of workflows could not be followed; retrying")
            # Who holds up the mark mostly commits within milliseconds, and says so in this process only.
            pause = self._limits.mark_every if self._high_water_mark.waits else self._limits.workflows_every
            await asyncio.sleep(pause)
            if self._high_water_mark.waits:
                self.notify()

    async def look(self) -> None:
        """Read the mark, and wake the watchers if it has moved."""
        mark = await self._front.call(self._high_water_mark.current)
        if mark > self.mark:
            self.mark = mark
            self._parts.clear()
            for watcher in tuple(self.watchers):
                watcher.wake()

    async def part(self, place: WorkflowPlace) -> WorkflowPart:
        """Return what follows a cursor that lies before the mark. The first caller reads for all at that cursor."""
        found = self._parts.get(place)
        if found is None:
            if len(self._parts) >= MAX_PARTS:
                self._parts.clear()
            reading = self._reader.call(self._load, place, self.mark)
            found = self._parts[place] = asyncio.get_running_loop().create_task(reading)
            found.add_done_callback(lambda done: self._forget_failure(place, done))
        return await asyncio.shield(found)  # the awaited viewer may leave

    def _forget_failure(self, place: WorkflowPlace, done: asyncio.Task[WorkflowPart]) -> None:
        failed = done.cancelled() or done.exception() is not None
        if failed and self._parts.get(place) is done:
            del self._parts[place]

    def _load(self, place: WorkflowPlace, last: int) -> WorkflowPart:
        self.loads += 1
        most, chars = self._limits.read_events, self._limits.read_chars
        span = read_span(place.workflow, after=place.after, last=last, limit=most, chars=chars)
        texts = [self._write(row, place.workflow, inspect=place.inspect) for row in span.rows]
        return WorkflowPart("".join(texts), span.reached)
