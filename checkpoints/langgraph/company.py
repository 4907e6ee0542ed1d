"""Writes of tasks that wait a moment, so that the checkpoint that follows them is stored in the same transaction.

A graph stores what its tasks wrote, and right after that the next checkpoint; each commit waits for the disk. No one
waits for the writes until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock

from checkpoints.langgraph.values import ThreadPlace
from checkpoints.langgraph.writes import PreparedWrites

MOMENT = 0.003
"""Seconds for which writes wait for company."""


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
            return [other for other in found if other is not waiting]

    def take(self, place: ThreadPlace) -> list[WaitingWrites]:
        """Return what waits in a namespace; from now on the caller sees to it, and says by ``tell`` how it went."""
        with self._lock:
            return self._waiting.pop(place[:2], [])


def tell(company: Sequence[WaitingWrites], *, stored: bool) -> None:
    """Say whether the writes were stored."""
    for waiting in company:
        if not waiting.stored.done():
            waiting.stored.set_result(stored)
