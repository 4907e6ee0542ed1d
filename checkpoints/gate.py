"""A lock that is fair: SQLite has one writer at a time, and its own way of waiting is a lottery.

This process queues at ``gate`` in front of its database, first come, first served: storage and ORM alike.
"""

from __future__ import annotations

import threading
from collections import deque


class Gate:
    """A lock that is fair (first come, first served) and may be entered again by the thread that holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Wait for one's turn."""
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
        """Take it if nobody has it, not even this thread; never wait."""
        with self._lock:
            if self._owner is not None:
                return False
            self._owner, self._depth = threading.get_ident(), 1
            return True

    def release(self) -> None:
        """Leave; the longest waiting is next."""
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


gate = Gate()
"""Held by whoever in this process writes to the SQLite database."""
