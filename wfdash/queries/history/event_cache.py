"""A cache of what was derived from the events of recently viewed runs, so that an open page reads only new ones.

Entries cannot go stale: events are immutable, and an entry is used only for the event ranges it was read from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Generic, TypeVar

from wfdash.queries.history.lineage import EventRange

T = TypeVar("T")
MIN_CACHED = 300
"""Shorter lists are read as fast as they are looked up."""
MAX_CACHED = 150_000
"""Maximum items in all, of a few hundred bytes each; the least recently used entry is evicted first."""


@dataclass(frozen=True, kw_only=True)
class _Entry(Generic[T]):
    ranges: list[EventRange]
    things: list[T]


class EventCache(Generic[T]):
    """A bounded, thread-safe LRU cache, one per process."""

    def __init__(self, *, min_cached: int = MIN_CACHED, max_cached: int = MAX_CACHED) -> None:
        self._min_cached, self._max_cached = min_cached, max_cached
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()
        self._lock = Lock()

    def follow(
        self, key: str, ranges: list[EventRange], read: Callable[[list[T], list[EventRange]], tuple[list[T], int]]
    ) -> list[T]:
        """Return the items that ``read`` derives from these ranges (newest first; the newest has no end).

        ``read`` gets the cached items and the ranges that follow; it returns a new list and the highest seq that it
        saw in the newest range, 0 for none. It reads in one query: events are committed in order, so the next read
        continues from there. Lists are never changed.
        """
        with self._lock:
            entry = self._entries.get(key)
        known, left = ([], ranges) if entry is None else (entry.things, _uncached(entry.ranges, ranges))
        if left is None:
            known, left = [], ranges
        things, seen = read(known, left)
        if len(things) >= self._min_cached:
            newest = replace(ranges[0], high=max(seen, left[0].low))
            self._store(key, _Entry(ranges=[newest, *ranges[1:]], things=things))
        return things

    def _store(self, key: str, entry: _Entry[T]) -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and sum(len(one.things) for one in self._entries.values()) > self._max_cached:
                self._entries.popitem(last=False)


def _uncached(known: list[EventRange], ranges: list[EventRange]) -> list[EventRange] | None:
    """Return the part of the ranges that is not cached; None if they are others (a restore, another branch)."""
    if not ranges or known[1:] != ranges[1:] or ranges[0].high is not None:
        return None
    old, new = known[0], ranges[0]
    if (old.run, old.low) != (new.run, new.low):
        return None
    return [replace(new, low=old.high or 0)]
