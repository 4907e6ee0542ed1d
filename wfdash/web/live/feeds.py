"""The events of watched runs, read and written once for all viewers."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from django.core.serializers.json import DjangoJSONEncoder

from checkpoints.database.high_water_mark import HighWaterMark
from checkpoints.events import EventKind
from checkpoints.models import Event
from checkpoints.records import frozen
from wfdash import pubsub
from wfdash.queries.history import cursor_at, event_of, read_span
from wfdash.records.messages import VERSION
from wfdash.web.live.database import DatabaseThreads, Head, Limits, read_events, read_heads

# The events of workflows for their streams: one high-water mark for all, and each part read and written once.

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


WriteWorkflow = Callable[..., str]
"""``write(event, workflow, inspect=...)`` returns the text of an event."""


class WorkflowFeed:
    """All event streams of workflows of this process. Used from the hub's loop alone."""

    def __init__(
        self, *, front: DatabaseThreads, reader: DatabaseThreads, write: WriteWorkflow, limits: Limits
    ) -> None:
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


# Streamed text on its way to one viewer. Pure: what does not fit is dropped, and the next piece says so.


class TextQueue:
    """The pieces that one viewer is to be sent."""

    def __init__(self) -> None:
        self._pieces: deque[TextPiece] = deque()
        self._missed: dict[str, bool] = {}
        """Step whose text was dropped -> whether its beginning was."""
        self.chars = 0
        """How much waits."""

    def add(self, piece: TextPiece, *, fits: bool) -> None:
        """Add a piece, or drop it."""
        if not fits:
            self._missed[piece.step] = piece.begin or self._missed.get(piece.step, False)
            return
        begin = self._missed.pop(piece.step, None)
        if begin is not None and not piece.begin:
            piece = replace(piece, begin=begin, cut=True)
        self._pieces.append(piece)
        self.chars += len(piece.text)

    def take(self) -> TextPiece | None:
        """Return the next piece, None if none waits."""
        if not self._pieces:
            return None
        piece = self._pieces.popleft()
        self.chars -= len(piece.text)
        return piece


# What is sent of a run's events, in its three forms: rows for the pages, records for programs, and event streams.


class Style(StrEnum):
    """How events are written. ``HTML`` is for the pages' own script and may change at any time."""

    HTML = "html"
    JSON = "json"
    SSE = "sse"


class EventForm(NamedTuple):
    """What one viewer gets of events: the style, and whether with values."""

    style: Style
    inspect: bool


@frozen
class TextPiece:
    """Text that a step streamed. ``begin``: the attempt's first, or all that is kept of it; else it follows the last
    piece. ``cut``: some text before it is missing.
    """

    step: str
    text: str
    begin: bool = False
    cut: bool = False


class EventBatch:
    """The encoded events that follow one cursor, oldest first, without a gap; never empty."""

    def __init__(self, first: int, texts: Sequence[str], style: Style = Style.HTML) -> None:
        self.first = first
        self.sizes = tuple(map(len, texts))
        """Characters of each event."""
        self._texts, self._style = texts, style
        self._whole = ""

    def last(self, count: int) -> int:
        """Return the seq of the last of the first ``count`` events."""
        return self.first + count - 1

    def message(self, count: int) -> str:
        """Return the message with the first ``count`` events."""
        if count < len(self._texts):
            return self._join(count)
        self._whole = self._whole or self._join(count)
        return self._whole

    def _join(self, count: int) -> str:
        if self._style is Style.SSE:
            return "".join(self._texts[:count])
        begin = '{"type":' if self._style is Style.HTML else f'{{"v":{VERSION},"type":'
        return f'{begin}"events","events":[{",".join(self._texts[:count])}],"last":{self.last(count)}}}'


def html_event(seq: int, kind: str, step: str | None, at: datetime, html: str) -> str:
    """Return an event as the pages get it."""
    return json.dumps({"seq": seq, "kind": kind, "step": step, "at": at.isoformat(), "html": html})


def json_text(record: Mapping[str, Any]) -> str:
    """Return an event as programs get it: the text of the API's record."""
    return json.dumps(record, cls=DjangoJSONEncoder)


def sse(data: str, *, event: str = "", id: object = None) -> str:  # noqa: A002 (the standard's name)
    """Return one message of an event stream. ``data`` is one line."""
    lines = [f"id: {id}"] if id is not None else []
    lines += [f"event: {event}"] if event else []
    return "\n".join([*lines, f"data: {data}", "", ""])


def message_of(style: Style, kind: str, **facts: Any) -> str:
    """Return a message that carries no event, such as ``stream`` or ``caught_up``."""
    if style is Style.SSE:
        return sse(json.dumps(facts), event=kind)
    version = {"v": VERSION} if style is Style.JSON else {}
    return json.dumps({**version, "type": kind, **facts})


def text_message(style: Style, piece: TextPiece) -> str:
    """Return the message with a piece of streamed text."""
    marks = {name: True for name in ("begin", "cut") if getattr(piece, name)}
    return message_of(style, "stream", step=piece.step, text=piece.text, **marks)


def joined(before: TextPiece | None, piece: TextPiece, *, most: int) -> TextPiece:
    """Return two pieces as one, at most so many characters: the end of it."""
    if before is None or piece.begin:
        whole, begin, cut = piece.text, piece.begin, piece.cut
    else:
        whole, begin, cut = before.text + piece.text, before.begin, before.cut or piece.cut
    return TextPiece(step=piece.step, text=whole[-most:], begin=begin, cut=cut or len(whole) > most)


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


# The newest lines of a feed, bounded in number and size, so that many viewers cost one read.


@dataclass(kw_only=True)
class CachedEvent:
    """An encoded event; ``texts`` has its text in each form that someone wanted."""

    event: Event
    texts: dict[EventForm, str] = field(default_factory=dict)

    @property
    def seq(self) -> int:
        """Return the event's number in its run."""
        return self.event.seq

    @property
    def size(self) -> int:
        """Return the characters of its longest rendering so far."""
        return max(map(len, self.texts.values()), default=0)


class RecentEvents:
    """Lines by seq; beyond the limits the oldest are dropped first."""

    def __init__(self, *, lines: int, chars: int) -> None:
        self._max_lines, self._max_chars = lines, chars
        self._lines: dict[int, tuple[CachedEvent, int]] = {}
        self._order: list[int] = []
        self._chars = 0

    def after(self, seq: int, limit: int) -> list[CachedEvent]:
        """Return the contiguous lines after ``seq``, at most ``limit``; empty if the next one is not cached."""
        found: list[CachedEvent] = []
        while len(found) < limit and (kept := self._lines.get(seq + len(found) + 1)):
            found.append(kept[0])
        return found

    def keep(self, lines: Iterable[CachedEvent]) -> None:
        """Add lines that are not cached yet."""
        for line in lines:
            if line.seq not in self._lines:
                self._lines[line.seq] = line, line.size
                self._chars += line.size
                heappush(self._order, line.seq)
        while len(self._lines) > self._max_lines or self._chars > self._max_chars:
            _, size = self._lines.pop(heappop(self._order))
            self._chars -= size


# Writes events in the forms that viewers get, in the database threads.


class Render(Protocol):
    """Turns an event into its row. Without ``inspect`` the row must not show values."""

    def __call__(self, event: Event, *, inspect: bool) -> str: ...


def render_nothing(event: Event, *, inspect: bool) -> str:
    """The renderer of a process that has no pages."""
    return ""


class EventWriter:
    """Writes an event in a form. One that cannot be read goes without its row or its data, not missing."""

    def __init__(self, render: Render = render_nothing) -> None:
        self.render = render

    def __call__(self, event: Event, form: EventForm) -> str:
        """Return the event's text."""
        if form.style is Style.HTML:
            return html_event(event.seq, event.kind, event.step, event.at, self._row(event, form.inspect))
        text = json_text(self._record(event, form.inspect))
        return sse(text, event=event.kind, id=event.seq) if form.style is Style.SSE else text

    def of_workflow(self, event: Event, workflow: str, *, inspect: bool) -> str:
        """Return the event as a message of its workflow's stream."""
        cursor = cursor_at(workflow, event.pk)
        record = {**self._record(event, inspect), "run": event.run_id, "cursor": cursor}
        return sse(json_text(record), event=event.kind, id=cursor)

    def _row(self, event: Event, inspect: bool) -> str:
        try:
            return self.render(event, inspect=inspect)
        except Exception:
            log.exception("event %s %s could not be rendered", event.run_id, event.seq)
            return ""

    def _record(self, event: Event, inspect: bool) -> dict[str, Any]:
        return {
            "seq": event.seq,
            "kind": event.kind,
            "step": event.step,
            "data": self._data(event, inspect),
            "at": event.at,
        }

    def _data(self, event: Event, inspect: bool) -> dict[str, Any]:
        try:
            return dict(event_of(event, inspect=inspect).data)
        except Exception:
            log.exception("event %s %s could not be read", event.run_id, event.seq)
            return {}
