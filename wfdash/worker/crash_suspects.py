"""Runs that may be what ends their workers: a worker takes one at a time, so that its death tells which it was."""

from __future__ import annotations

import time

SURVIVED = 300.0
"""Seconds of running after which a suspect is none any more: one that runs for hours must not keep others waiting."""

CANDIDATES = 50
"""Suspects of which one is chosen."""


class SuspectSlot:
    """The one place for a suspect (``checkpoints.rules.is_suspect``) in a worker. ``run`` is empty while it is free."""

    def __init__(self, *, steady_after: float) -> None:
        """``steady_after``: seconds that the worker must have lived before it takes its first suspect.

        Where a process ends again and again for another reason, no run is blamed for it.
        """
        self.run = ""
        self._steady_at = time.monotonic() + steady_after
        self._since = 0.0

    def wanted(self) -> int:
        """Return from how many suspects one is to be chosen now; 0 if none may be taken."""
        return 0 if self.run or time.monotonic() < self._steady_at else CANDIDATES

    def take(self, run: str) -> None:
        """Put a run into the slot."""
        self.run, self._since = run, time.monotonic()

    def is_survivor(self) -> bool:
        """Say whether the run in it has been there long enough to be no suspect any more."""
        return bool(self.run) and time.monotonic() - self._since >= SURVIVED

    def clear(self, run: str) -> None:
        """Free the slot if this run is in it: it ended, parked, or has made a step."""
        if self.run == run:
            self.run = ""
