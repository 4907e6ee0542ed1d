"""One watched run: what its viewers read, each event fetched and rendered once for all of them.

A viewer is only a cursor. It asks for the lines after its cursor and is woken when there may be more, so replay,
following and catching up are one thing, and a gap or a double cannot arise between them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Protocol

from checkpoints.models import Event
from wfdash.live.limits import Limits
from wfdash.live.reader import Reader, read_events
from wfdash.live.window import Line, Window

log = logging.getLogger(__name__)


class Render(Protocol):
    """Turns an event into its row. Without ``inspect`` the row must not show values."""

    def __call__(self, event: Event, *, inspect: bool) -> str: ...


class Watcher(Protocol):
    """Somebody a feed wakes: there may be more after your cursor, or text."""

    def wake(self) -> None: ...

    def show_text(self, message: str) -> None: ...


class Feed:
    """The events of one run, for all its viewers in this process. Used from the hub's loop alone."""

    def __init__(self, run: str, *, reader: Reader, render: Render, limits: Limits) -> None:
        self.run = run
        self.known = 0
        """The run is believed to reach this seq; what is read is the truth."""
        self.watchers: set[Watcher] = set()
        self.loads = 0
        """How often a thread was asked to read or render."""
        self._window = Window(lines=limits.kept_events, chars=limits.kept_chars)
        self._texts: dict[str, str] = {}
        self._text_timer: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._reader, self._render, self._limits = reader, render, limits

    def bell(self, seq: int) -> None:
        """Somebody says that the run reaches at least ``seq``. Late, doubled and wrong bells do no harm."""
        if seq > self.known:
            self.known = seq
            for watcher in tuple(self.watchers):
                watcher.wake()

    async def lines(self, after: int, *, inspect: bool) -> Sequence[Line]:
        """Return the next lines after a cursor, oldest first, rendered for that right; empty if there are none.

        Whoever comes first reads for everybody who waits; bells that ring meanwhile are folded into the next read.
        """
        if ready := self._ready(after, inspect):
            return ready
        async with self._lock:
            if (ready := self._ready(after, inspect)) or self.known <= after:
                return ready
            self.loads += 1
            kept, asked = self._cached(after), self.known
            found = await self._reader.call(self._load, kept, after, inspect)
            if not kept:
                self._keep(found, after, asked)
        return found

    def _ready(self, after: int, inspect: bool) -> list[Line]:
        """Return kept lines if they are rendered for that right already."""
        found = self._cached(after)
        return found if all(inspect in line.texts for line in found) else []

    def _cached(self, after: int) -> list[Line]:
        return self._window.after(after, self._limits.read_events)

    def _load(self, found: list[Line], after: int, inspect: bool) -> list[Line]:
        if not found:
            found = [Line(event=e) for e in read_events(self.run, after=after, limit=self._limits.read_events)]
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

    def _keep(self, found: list[Line], after: int, asked: int) -> None:
        last = found[-1].seq if found else after
        if len(found) < self._limits.read_events and self.known == asked:
            self.known = last  # a bell that promised more than there is must not make anybody read again
        self.known = max(self.known, last)
        self._window.keep(found)

    def stream(self, step: str, text: str) -> None:
        """Show text while it is made: joined, at most ten messages a second, dropped where it does not fit."""
        self._texts[step] = (self._texts.get(step, "") + text)[-self._limits.stream_chars :]
        if self._text_timer is None:
            loop = asyncio.get_running_loop()
            self._text_timer = loop.call_later(self._limits.stream_every, self._flush_text)

    def _flush_text(self) -> None:
        texts, self._texts, self._text_timer = self._texts, {}, None
        for step, text in texts.items():
            message = json.dumps({"type": "stream", "step": step, "text": text})
            for watcher in tuple(self.watchers):
                watcher.show_text(message)

    def close(self) -> None:
        """Forget text that was not shown yet."""
        if self._text_timer is not None:
            self._text_timer.cancel()


def encode(event: Event, html: str) -> str:
    """Return the event as the client gets it."""
    at = event.at.isoformat()
    return json.dumps({"seq": event.seq, "kind": event.kind, "step": event.step, "at": at, "html": html})
