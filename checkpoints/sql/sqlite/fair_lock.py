"""FIFO lock for SQLite's single writer; SQLite's own busy-wait is unfair.

Every write of this process, by the storage and by the ORM, holds ``write_lock``.
"""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A reentrant lock that is granted in the order of requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Acquire the lock, after every thread that waits already."""
        me = threading.get_ident()
        with self._lock:
            if self._owner is None or self._owner == me:
                self._owner, self._depth = me, self._depth + 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()
        self._owner = me

    def try_acquire(self) -> bool:
        """Acquire the lock and return True if it is free (not even held by this thread); never waits."""
        with self._lock:
            if self._owner is not None:
                return False
            self._owner, self._depth = threading.get_ident(), 1
            return True

    def release(self) -> None:
        """Release the lock; the thread that has waited longest gets it."""
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            if self._waiting:
                self._owner, self._depth = -1, 1
                self._waiting.popleft().release()
            else:
                self._owner = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


write_lock = FairLock()
"""The lock of this process's writes to its SQLite database."""
