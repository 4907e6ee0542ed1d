"""What was read of runs looked at lately, so that an open page reads only what is new. Nothing in it can go stale:
events are never changed, and what it holds is used only for the very stretches of events it was read from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Generic, TypeVar

from wfdash.queries.lineage import Span

T = TypeVar("T")
WORTH = 300
"""Fewer are read as quickly as they are looked up."""
MOST = 150_000
"""Things held in all, of a few hundred bytes each; what was looked at longest ago goes first."""


@dataclass(frozen=True, kw_only=True)
class _Held(Generic[T]):
    spans: list[Span]
    things: list[T]


class Recall(Generic[T]):
    """Per process and bounded; may be asked from any thread."""

    def __init__(self, *, worth: int = WORTH, most: int = MOST) -> None:
        self._worth, self._most = worth, most
        self._held: OrderedDict[str, _Held[T]] = OrderedDict()
        self._lock = Lock()

    def follow(
        self, key: str, spans: list[Span], read: Callable[[list[T], list[Span]], tuple[list[T], int]]
    ) -> list[T]:
        """Return what ``read`` makes of these stretches (newest first; the newest has no end).

        ``read`` is given what is known and the stretches that follow; it returns a new list and the highest seq that it
        saw in the newest of them, 0 for none. It reads in one query: events are committed in order, so that is where
        the next reading begins. Lists are never changed.
        """
        with self._lock:
            held = self._held.get(key)
        known, left = ([], spans) if held is None else (held.things, _beyond(held.spans, spans))
        if left is None:
            known, left = [], spans
        things, seen = read(known, left)
        if len(things) >= self._worth:
            newest = replace(spans[0], high=max(seen, left[0].low))
            self._keep(key, _Held(spans=[newest, *spans[1:]], things=things))
        return things

    def _keep(self, key: str, held: _Held[T]) -> None:
        with self._lock:
            self._held[key] = held
            self._held.move_to_end(key)
            while len(self._held) > 1 and sum(len(one.things) for one in self._held.values()) > self._most:
                self._held.popitem(last=False)


def _beyond(known: list[Span], spans: list[Span]) -> list[Span] | None:
    """Return what the stretches have beyond those known; None if they are others (a restore, another branch)."""
    if not spans or known[1:] != spans[1:] or spans[0].high is not None:
        return None
    old, new = known[0], spans[0]
    if (old.run, old.low) != (new.run, new.low):
        return None
    return [replace(new, low=old.high or 0)]
