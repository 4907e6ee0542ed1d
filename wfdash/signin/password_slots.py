"""How many passwords are checked at a time. Checking one is expensive on purpose, and anybody may ask for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wfdash.errors import Busy

CHECKING = 2
WAITING = 2
"""Who comes while so many wait is refused at once. Together half of the threads that draw pages."""
SECONDS = 2.0
"""The longest wait for a turn."""


class Slots:
    """A few places to work in, and a few to wait in."""

    def __init__(self, *, working: int = CHECKING, waiting: int = WAITING, seconds: float = SECONDS) -> None:
        self._entered = threading.BoundedSemaphore(working + waiting)
        self._working = threading.BoundedSemaphore(working)
        self._seconds = seconds

    @contextmanager
    def take(self) -> Iterator[None]:
        """Work in one of the places; ``Busy`` if none gets free soon."""
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
"""The places of this process."""
