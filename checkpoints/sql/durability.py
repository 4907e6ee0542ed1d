"""Durability levels: which commits are fsynced before they are acknowledged.

Every commit survives a killed process. With ``full`` (the default) all of them survive a power failure too; with
``relaxed`` only those of ``must_sync``, for machines with slow disks whose steps may be repeated.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from enum import StrEnum

from checkpoints.errors import InvalidConfig
from checkpoints.records import Commit, frozen

# Durations of this process's transactions, and how many scripts shared them: for monitoring.

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds."""


@frozen
class TransactionTotals:
    """Totals since the process started. ``counts``: transactions per bucket of ``BOUNDS``, the last one above all."""

    transactions: int
    scripts: int
    seconds: float
    counts: tuple[int, ...]


class TransactionMeter:
    """Counts transactions; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scripts = 0
        self._seconds = 0.0
        self._counts = [0] * (len(BOUNDS) + 1)

    def record(self, scripts: int, seconds: float) -> None:
        """Record a transaction that ``scripts`` scripts shared."""
        with self._lock:
            self._scripts += scripts
            self._seconds += seconds
            self._counts[bisect_left(BOUNDS, seconds)] += 1

    def read(self) -> TransactionTotals:
        """Return the totals."""
        with self._lock:
            counts = tuple(self._counts)
            return TransactionTotals(
                transactions=sum(counts), scripts=self._scripts, seconds=self._seconds, counts=counts
            )


meter = TransactionMeter()
"""The meter of all storages of this process."""


class Durability(StrEnum):
    """How much a power failure may undo."""

    FULL = "full"
    RELAXED = "relaxed"


def parse_durability(text: str, *, name: str = "WFDASH_DURABILITY") -> Durability:
    """Return the level of that name. ``InvalidConfig`` mentions the setting by ``name``."""
    try:
        return Durability(text)
    except ValueError:
        raise InvalidConfig(f"{name} must be full or relaxed, not {text!r}") from None


def must_sync(commit: Commit) -> bool:
    """Return whether a commit must survive a power failure at either level.

    So must the end of a drive (suspended, asleep, finished, failed), an answer, and the record of a ``once`` call.
    """
    if commit.standing is not None or commit.answered:
        return True
    return bool(commit.effects) and any(effect.once for effect in commit.effects)
