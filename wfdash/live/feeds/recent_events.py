"""The newest lines of a feed, bounded in number and size, so that many viewers cost one read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from checkpoints.models import Event
from wfdash.live.feeds.messages import EventForm


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
