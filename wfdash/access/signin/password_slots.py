"""Limits how many passwords are checked at a time, because checking one is expensive on purpose and open to anyone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wfdash.domain.errors import Busy

CHECKING = 2
WAITING = 2
"""Callers beyond so many waiting ones are refused at once. Together half of the threads that serve pages."""
WAIT_SECONDS = 2.0
"""Seconds a caller waits at most."""


class Slots:
    """A semaphore with a limited number of waiting callers."""

    def __init__(self, *, working: int = CHECKING, waiting: int = WAITING, seconds: float = WAIT_SECONDS) -> None:
        self._entered = threading.BoundedSemaphore(working + waiting)
        self._working = threading.BoundedSemaphore(working)
        self._seconds = seconds

    @contextmanager
    def take(self) -> Iterator[None]:
        """Hold one of the slots; ``Busy`` if none becomes free soon."""
        if not self._entered.acquire(blocking=False):
            raise _busy()
        try:
            if not self._working.acquire(timeout=self._seconds):
                raise _busy()
            try:
                yield
            finally:
                self._working.release()
        finally:
            self._entered.release()


def _busy() -> Busy:
    return Busy("Too many sign-ins at the moment. Try again in a few seconds.", retry_after=3)


slots = Slots()
"""The slots of this process."""
