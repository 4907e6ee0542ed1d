"""How many sockets and event streams each person has open in this process; for any thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from threading import RLock


class Admissions:
    """Counts connections by person, at most so many each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[Hashable] = Counter()
        self._lock = RLock()  # a finalizer may run while it is held

    def admit(self, person: Hashable) -> bool:
        """Count one more of this person; False if they have too many. ``dismiss`` uncounts it."""
        with self._lock:
            if self._open[person] >= self._most:
                return False
            self._open[person] += 1
            return True

    def dismiss(self, person: Hashable) -> None:
        """Count one less."""
        with self._lock:
            self._open[person] -= 1
            self._open += Counter()  # drops those at zero

    @property
    def total(self) -> int:
        """Return how many are open."""
        with self._lock:
            return self._open.total()
