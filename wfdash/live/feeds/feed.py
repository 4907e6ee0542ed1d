"""The event feed of one run for all its viewers: each event is read and rendered once.

A viewer is only a cursor. It asks for the lines after its cursor and is woken when there may be more, so replay,
following and catching up are the same operation, and there can be no gap or duplicate between them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from checkpoints.events import EventKind
from checkpoints.models import Event
from wfdash import pubsub
from wfdash.live.database import DatabaseThreads, Head, read_events, read_heads
from wfdash.live.feeds.messages import EventBatch, EventForm, TextPiece, joined
from wfdash.live.feeds.recent_events import CachedEvent, RecentEvents
from wfdash.live.limits import Limits

MAX_BATCHES = 16
"""How many cursors of a run have their next message cached; others are built again."""


BatchKey = tuple[int, EventForm]
"""A cursor, and what the viewer gets of events."""
ENDING = frozenset({EventKind.RUN_COMPLETED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED})


Write = Callable[[Event, EventForm], str]
"""Returns the text of an event in a form."""


class Loaded(NamedTuple):
    """What a thread read: events, whether there are no more, and how far the run is if it may have ended."""

    lines: list[CachedEvent]
    all_of_it: bool
    head: Head | None


class Watcher(Protocol):
    """A viewer that a feed wakes when there may be more events after its cursor, or text."""

    def wake(self) -> None: ...

    def show_text(self, piece: TextPiece) -> None: ...


class Feed:
    """The events of one run, for all its viewers in this process. Used from the hub's loop alone."""

    def __init__(self, run: str, *, reader: DatabaseThreads, write: Write, limits: Limits) -> None:
        self.run = run
        self.known = 0
        """The highest seq announced for the run; only what is read is certain."""
        self.reached = -1
        """The highest seq that was read; -1 before the first read."""
        self.ended: tuple[int, str] | None = None
        """With which event the run has ended, and how."""
        self.watchers: set[Watcher] = set()
        self.loads = 0
        """How many times a thread was asked to read or render."""
        self._window = RecentEvents(lines=limits.kept_events, chars=limits.kept_chars)
        self._packets: dict[BatchKey, EventBatch] = {}
        self._woke = -math.inf
        self._wake_timer: asyncio.TimerHandle | None = None
        self._texts: dict[str, TextPiece] = {}
        self._text_timer: asyncio.TimerHandle | None = None
        self._reading: tuple[BatchKey, asyncio.Task[EventBatch | None]] | None = None
        self._reader, self._write, self._limits = reader, write, limits

    def reach(self, seq: int) -> None:
        """Note that the run reaches at least ``seq``. Late, duplicate and wrong calls do no harm."""
        if seq > self.known:
            self.known = seq
            self._wake_soon()

    def learn(self, head: Head) -> None:
        """Note what was read of the run."""
        before, self.ended = self.ended, (head.seq, head.ended) if head.ended else None
        self.reach(head.seq)
        if self.ended != before:
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

    async def packet(self, after: int, form: EventForm) -> EventBatch | None:
        """Return what follows a cursor, in that form; None if nothing does.

        The first caller reads for everyone who waits; updates in the meantime are part of the next read.
        """
        place = (after, form)
        while not (ready := self._ready(after, form)) and self.known > after:
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

    async def _read_batch(self, after: int, form: EventForm) -> EventBatch | None:
        self.loads += 1
        kept, asked = self._cached(after), self.known
        try:
            found, all_of_it, head = await self._reader.call(self._load, kept, after, form)
        finally:
            self._reading = None
        if not kept:
            self._cache_events(found, after, asked if all_of_it else -1)
        if head is not None:
            self.learn(head)
        return self._pack(found, form) if found else None

    def _ready(self, after: int, form: EventForm) -> EventBatch | None:
        """Return what follows if it is cached, and in that form already."""
        if packet := self._packets.get((after, form)):
            return packet
        found = self._cached(after)
        if not found or any(form not in line.texts for line in found):
            return None
        packet = self._pack(found, form)
        if len(self._packets) >= MAX_BATCHES:
            self._packets.clear()
        self._packets[after, form] = packet
        return packet

    def _pack(self, lines: Sequence[CachedEvent], form: EventForm) -> EventBatch:
        first = lines[0].seq
        row, room = list[str](), self._limits.read_chars
        for line in lines[: self._limits.batch_events]:
            if line.seq != first + len(row) or room < 0:
                break
            row.append(line.texts[form])
            room -= len(row[-1])
        return EventBatch(first, row, form.style)

    def _cached(self, after: int) -> list[CachedEvent]:
        return self._window.after(after, self._limits.read_events)

    def _load(self, found: list[CachedEvent], after: int, form: EventForm) -> Loaded:
        """Return events in that form; with one that may end the run also how far it is."""
        all_of_it = True
        if not found:
            found, all_of_it = self._read(after, form)
        for line in found:
            if form not in line.texts:
                line.texts[form] = self._write(line.event, form)
        ending = any(line.event.kind in ENDING for line in found)
        return Loaded(found, all_of_it, read_heads([self.run]).get(self.run) if ending else None)

    def _read(self, after: int, form: EventForm) -> tuple[list[CachedEvent], bool]:
        """Return the events after a cursor as far as the limits go, and whether there are no more."""
        found, room = list[CachedEvent](), self._limits.read_chars
        for event in read_events(self.run, after=after, limit=self._limits.read_events):
            line = CachedEvent(event=event, texts={form: self._write(event, form)})
            found.append(line)
            if (room := room - line.size) < 0:
                return found, False
        return found, len(found) < self._limits.read_events

    def _cache_events(self, found: list[CachedEvent], after: int, asked: int) -> None:
        last = found[-1].seq if found else after
        self.reached = max(self.reached, found[-1].seq if found else -1)
        if self.known == asked:
            self.known = last  # an update that announced more than there is must not cause another read
        self.known = max(self.known, last)
        self._window.keep(found)
        self._packets.clear()

    def stream(self, piece: TextPiece) -> None:
        """Show streamed text: joined, ten messages a second and one before events, cut where it exceeds the limit."""
        self._texts[piece.step] = joined(self._texts.get(piece.step), piece, most=self._limits.stream_chars)
        if self._text_timer is None:
            loop = asyncio.get_running_loop()
            self._text_timer = loop.call_later(self._limits.stream_every, self._flush_text)

    def begin_text(self, watcher: Watcher) -> None:
        """Show a new viewer the text streamed so far."""
        for step, kept in pubsub.streamed_text.of(self.run).items():
            watcher.show_text(TextPiece(step=step, text=kept.text, begin=True, cut=kept.cut))

    def flush_text(self) -> None:
        """Show the text since the last message, now."""
        if self._text_timer is not None:
            self._text_timer.cancel()
            self._flush_text()

    def _flush_text(self) -> None:
        texts, self._texts, self._text_timer = self._texts, {}, None
        for piece in texts.values():
            for watcher in tuple(self.watchers):
                watcher.show_text(piece)

    def close(self) -> None:
        """Drop text that was not shown yet, and pending wake-ups."""
        for timer in (self._text_timer, self._wake_timer):
            if timer is not None:
                timer.cancel()
