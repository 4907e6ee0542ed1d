"""Backoff for rows that a sweep could not process, so that those behind them get their turn.

Kept in this process's memory: another worker, or this one after a restart, tries them again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from django.db import InterfaceError, InternalError, OperationalError

log = logging.getLogger(__name__)

FIRST, LAST = 60.0, 3600.0
"""Seconds until a row is retried; doubled each time."""
MOST = 500
"""Rows backed off at a time; beyond them the one that has waited longest is retried."""


def is_outage(error: Exception) -> bool:
    """Return whether the database is unavailable, full or read-only: that says nothing about any row."""
    # SQLite's errors about a row that another program wrote are not outages.
    return isinstance(error, OperationalError | InterfaceError | InternalError) and "malformed JSON" not in str(error)


class SweepBackoff:
    """The failed rows of one kind of work. ``what``: the sentence for the log, with ``%s`` for the row's key."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._until: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def backed_off(self) -> list[str]:
        """Return the rows to leave out now."""
        now = self._clock()
        with self._lock:
            return [key for key, (until, _) in self._until.items() if until > now]

    def run_each(self, keys: Sequence[str], do: Callable[[str], int]) -> int:
        """Process each row separately. Returns the sum of the results."""
        return sum(self._run_one(key, do) for key in keys)

    def run_batch(self, keys: Sequence[str], do: Callable[[Sequence[str]], int]) -> int:
        """Process all rows at once or, if that fails, each separately. Returns how many were processed."""
        try:
            return do(keys)
        except Exception as error:
            if is_outage(error):
                raise
            return self.run_each(keys, lambda key: do([key]))

    def _run_one(self, key: str, do: Callable[[str], int]) -> int:
        try:
            done = do(key)
        except Exception as error:
            if is_outage(error):
                raise
            seconds = self._back_off(key)
            log.exception(f"{self._what}; retrying in %d s", key, seconds)
            return 0
        with self._lock:
            self._until.pop(key, None)
        return done

    def _back_off(self, key: str) -> float:
        with self._lock:
            _, before = self._until.pop(key, (0.0, 0.0))
            seconds = min(LAST, before * 2) or FIRST
            self._until[key] = (self._clock() + seconds, seconds)
            if len(self._until) > MOST:
                del self._until[next(iter(self._until))]
            return seconds
