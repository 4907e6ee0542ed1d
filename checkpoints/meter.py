"""How long this process's transactions took, and how many scripts shared them: for whoever watches."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Since the process began. ``counts``: transactions per bound, each not above it, and above all of them last."""

    transactions: int
    scripts: int
    seconds: float
    counts: tuple[int, ...]


class Meter:
    """Counts transactions. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scripts = 0
        self._seconds = 0.0
        self._counts = [0] * (len(BOUNDS) + 1)

    def took(self, scripts: int, seconds: float) -> None:
        """Take note of a transaction that so many scripts shared."""
        with self._lock:
            self._scripts += scripts
            self._seconds += seconds
            self._counts[bisect_left(BOUNDS, seconds)] += 1

    def read(self) -> Reading:
        """Return what was counted."""
        with self._lock:
            counts = tuple(self._counts)
            return Reading(transactions=sum(counts), scripts=self._scripts, seconds=self._seconds, counts=counts)


meter = Meter()
"""Of whatever this process writes through its storage."""
