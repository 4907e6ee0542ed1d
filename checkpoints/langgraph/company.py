"""Writes of tasks that wait a moment, so that the checkpoint that follows them is stored in the same transaction.

A graph stores what its tasks wrote, and right after that the next checkpoint; each commit waits for the disk. No one
waits for the writes until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock

from checkpoints.langgraph.values import ThreadPlace
from checkpoints.langgraph.writes import PreparedWrites

MOMENT = 0.003
"""Seconds for which writes wait for company."""
PATIENCE = 3
"""Writes that wait in vain, one after the other, until none does; a caller may store one thing at a time."""


class WaitingWrites:
    """Writes that wait. ``stored``: whether someone else's transaction had them; False: they are still to be stored."""

    def __init__(self, given: PreparedWrites) -> None:
        self.given = given
        self.stored: Future[bool] = Future()


class Company:
    """Writes that wait, by namespace; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[tuple[str, str], list[WaitingWrites]] = {}
        self._alone: Counter[tuple[str, str]] = Counter()
        self._patience = PATIENCE

    @property
    def expected(self) -> bool:
        """Return whether it is worth to wait: lately something came along while writes waited or were stored."""
        return self._patience > 0

    @contextmanager
    def without(self, given: PreparedWrites) -> Iterator[None]:
        """Note for as long as it lasts that writes are stored alone: a checkpoint in between is company missed."""
        space = given.place[:2]
        with self._lock:
            self._alone[space] += 1
        try:
            yield
        finally:
            with self._lock:
                self._alone[space] -= 1
                if not self._alone[space]:
                    del self._alone[space]

    def join(self, given: PreparedWrites) -> WaitingWrites:
        """Let writes wait."""
        waiting = WaitingWrites(given)
        with self._lock:
            self._waiting.setdefault(given.place[:2], []).append(waiting)
        return waiting

    def leave(self, waiting: WaitingWrites) -> None:
        """Let writes wait no longer, if no one has taken them yet."""
        with self._lock:
            rest = [other for other in self._waiting.pop(waiting.given.place[:2], []) if other is not waiting]
            if rest:
                self._waiting[waiting.given.place[:2]] = rest

    def lead(self, waiting: WaitingWrites) -> list[WaitingWrites] | None:
        """Return the others that wait in its namespace, as ``take``; None if someone has taken it already."""
        with self._lock:
            found = self._waiting.get(waiting.given.place[:2], [])
            if waiting not in found:
                return None
            del self._waiting[waiting.given.place[:2]]
            others = [other for other in found if other is not waiting]
            self._patience = PATIENCE if others else self._patience - 1
            return others

    def take(self, place: ThreadPlace) -> list[WaitingWrites]:
        """Return what waits in a namespace; from now on the caller sees to it, and says by ``tell`` how it went."""
        with self._lock:
            found = self._waiting.pop(place[:2], [])
            if found or place[:2] in self._alone:
                self._patience = PATIENCE
            return found


def tell(company: Sequence[WaitingWrites], *, stored: bool) -> None:
    """Say whether the writes were stored."""
    for waiting in company:
        if not waiting.stored.done():
            waiting.stored.set_result(stored)
