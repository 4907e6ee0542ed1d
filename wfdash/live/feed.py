"""The event feed of one run for all its viewers: each event is read and rendered once.

A viewer is only a cursor. It asks for the lines after its cursor and is woken when there may be more, so replay,
following and catching up are the same operation, and there can be no gap or duplicate between them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Sequence
from typing import Protocol

from checkpoints.models import Event
from wfdash import pubsub
from wfdash.live.database import DatabaseThreads, read_events
from wfdash.live.limits import Limits
from wfdash.live.messages import EventBatch
from wfdash.live.recent_events import CachedEvent, RecentEvents

log = logging.getLogger(__name__)

MAX_BATCHES = 16
"""How many cursors of a run have their next message cached; others are built again."""


BatchKey = tuple[int, bool]
"""A cursor, and whether the viewer may inspect values."""


class Render(Protocol):
    """Turns an event into its row. Without ``inspect`` the row must not show values."""

    def __call__(self, event: Event, *, inspect: bool) -> str: ...


class Watcher(Protocol):
    """A viewer that a feed wakes when there may be more events after its cursor, or text."""

    def wake(self) -> None: ...

    def show_text(self, message: str) -> None: ...


class Feed:
    """The events of one run, for all its viewers in this process. Used from the hub's loop alone."""

    def __init__(self, run: str, *, reader: DatabaseThreads, render: Render, limits: Limits) -> None:
        self.run = run
        self.known = 0
        """The highest seq announced for the run; only what is read is certain."""
        self.reached = -1
        """The highest seq that was read; -1 before the first read."""
        self.watchers: set[Watcher] = set()
        self.loads = 0
        """How many times a thread was asked to read or render."""
        self._window = RecentEvents(lines=limits.kept_events, chars=limits.kept_chars)
        self._packets: dict[BatchKey, EventBatch] = {}
        self._woke = -math.inf
        self._wake_timer: asyncio.TimerHandle | None = None
        self._texts: dict[str, str] = {}
        self._text_timer: asyncio.TimerHandle | None = None
        self._reading: tuple[BatchKey, asyncio.Task[EventBatch | None]] | None = None
        self._reader, self._render, self._limits = reader, render, limits

    def reach(self, seq: int) -> None:
        """Note that the run reaches at least ``seq``. Late, duplicate and wrong calls do no harm."""
        if seq > self.known:
            self.known = seq
            self._wake_soon()

    def _wake_soon(self) -> None:
        """Wake the watchers at once or, if they are many and were woken a moment ago, after a pause.

        Their cost is per message rather than per event: a crowd gets few messages with many events.
        """
        if self._wake_timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._woke + len(self.watchers) * self._limits.pause_each - loop.time()
        if wait <= 0:
            self._wake()
        else:
            self._wake_timer = loop.call_later(wait, self._wake)

    def _wake(self) -> None:
        self._woke, self._wake_timer = asyncio.get_running_loop().time(), None
        for watcher in tuple(self.watchers):
            watcher.wake()

    async def packet(self, after: int, *, inspect: bool) -> EventBatch | None:
        """Return what follows a cursor, rendered for that right; None if nothing does.

        The first caller reads for everyone who waits; updates in the meantime are part of the next read.
        """
        place = (after, inspect)
        while not (ready := self._ready(after, inspect)) and self.known > after:
            if self._reading is None:
                return await self._begin_to_read(place)
            # Not a lock: it would let one of hundreds continue in each round of the loop.
            read, found = self._reading
            await asyncio.wait([found])
            if read == place and not found.cancelled() and found.exception() is None:
                return found.result()
        return ready

    async def _begin_to_read(self, place: BatchKey) -> EventBatch | None:
        """Return the batch read for all at this cursor. If it fails the others retry themselves."""
        task = asyncio.get_running_loop().create_task(self._read_batch(*place))
        self._reading = place, task
        return await asyncio.shield(task)  # the awaited viewer may leave

    async def _read_batch(self, after: int, inspect: bool) -> EventBatch | None:
        self.loads += 1
        kept, asked = self._cached(after), self.known
        try:
            found = await self._reader.call(self._load, kept, after, inspect)
        finally:
            self._reading = None
        if not kept:
            self._cache_events(found, after, asked)
        return self._pack(found, inspect) if found else None

    def _ready(self, after: int, inspect: bool) -> EventBatch | None:
        """Return what follows if it is cached, and rendered for that right already."""
        if packet := self._packets.get((after, inspect)):
            return packet
        found = self._cached(after)
        if not found or any(inspect not in line.texts for line in found):
            return None
        packet = self._pack(found, inspect)
        if len(self._packets) >= MAX_BATCHES:
            self._packets.clear()
        self._packets[after, inspect] = packet
        return packet

    def _pack(self, lines: Sequence[CachedEvent], inspect: bool) -> EventBatch:
        first = lines[0].seq
        row = [line.texts[inspect] for place, line in enumerate(lines) if line.seq == first + place]
        return EventBatch(first, row[: self._limits.batch_events])

    def _cached(self, after: int) -> list[CachedEvent]:
        return self._window.after(after, self._limits.read_events)

    def _load(self, found: list[CachedEvent], after: int, inspect: bool) -> list[CachedEvent]:
        if not found:
            found = [CachedEvent(event=e) for e in read_events(self.run, after=after, limit=self._limits.read_events)]
        for line in found:
            if inspect not in line.texts:
                line.texts[inspect] = encode(line.event, self._html(line.event, inspect))
        return found

    def _html(self, event: Event, inspect: bool) -> str:
        try:
            return self._render(event, inspect=inspect)
        except Exception:
            log.exception("event %s %s could not be rendered", event.run_id, event.seq)
            return ""

    def _cache_events(self, found: list[CachedEvent], after: int, asked: int) -> None:
        last = found[-1].seq if found else after
        self.reached = max(self.reached, found[-1].seq if found else -1)
        if len(found) < self._limits.read_events and self.known == asked:
            self.known = last  # an update that announced more than there is must not cause another read
        self.known = max(self.known, last)
        self._window.keep(found)
        self._packets.clear()

    def stream(self, step: str, text: str) -> None:
        """Show streamed text: joined, at most ten messages a second, dropped where it exceeds the limit."""
        self._texts[step] = (self._texts.get(step, "") + text)[-self._limits.stream_chars :]
        if self._text_timer is None:
            loop = asyncio.get_running_loop()
            self._text_timer = loop.call_later(self._limits.stream_every, self._flush_text)

    def begin_text(self, watcher: Watcher) -> None:
        """Show a new viewer the text streamed so far."""
        for step, text in pubsub.streamed_text.of(self.run).items():
            watcher.show_text(json.dumps({"type": "stream", "step": step, "text": text, "begin": True}))

    def flush_text(self) -> None:
        """Show the text since the last message, now."""
        if self._text_timer is not None:
            self._text_timer.cancel()
            self._flush_text()

    def _flush_text(self) -> None:
        texts, self._texts, self._text_timer = self._texts, {}, None
        for step, text in texts.items():
            message = json.dumps({"type": "stream", "step": step, "text": text})
            for watcher in tuple(self.watchers):
                watcher.show_text(message)

    def close(self) -> None:
        """Drop text that was not shown yet, and pending wake-ups."""
        for timer in (self._text_timer, self._wake_timer):
            if timer is not None:
                timer.cancel()


def encode(event: Event, html: str) -> str:
    """Return the event as the client gets it."""
    at = event.at.isoformat()
    return json.dumps({"seq": event.seq, "kind": event.kind, "step": event.step, "at": at, "html": html})
