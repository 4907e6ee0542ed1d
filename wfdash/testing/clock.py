"""The bench's clock: this machine's, moved. Django, the ORM's ``Now()`` and the storage all follow it."""

from __future__ import annotations

import sqlite3
import threading
from datetime import UTC, datetime, timedelta

MARGIN = timedelta(milliseconds=2)
"""SQLite's clock has three decimals, stored times six: what is due at a moment is found this much later."""


class Clock:
    """How far time was moved, in this process."""

    def __init__(self) -> None:
        self.moved = timedelta()

    def now(self) -> datetime:
        """Return the time, aware, UTC."""
        return datetime.now(UTC) + self.moved

    def move_to(self, at: datetime) -> None:
        """Move on to a time; one that has passed changes nothing."""
        self.moved += max(at + MARGIN - self.now(), timedelta())

    @property
    def modifier(self) -> str:
        """Return the distance as SQLite's functions take it."""
        return f"{self.moved.total_seconds():+.3f} seconds"


clock = Clock()
_plain = sqlite3.connect(":memory:", check_same_thread=False)
"""A connection whose functions are SQLite's own."""
_lock = threading.Lock()


def strftime(form: str, *values: str | float | None) -> str | None:
    """Return what SQLite's own function does, by the bench's clock."""
    moved: list[str | float | None] = []
    for value in values:
        moved += [value, clock.modifier] if isinstance(value, str) and value.lower() == "now" else [value]
    places = ",".join("?" * (len(moved) + 1))
    with _lock:
        ((text,),) = _plain.execute(f"SELECT strftime({places})", (form, *moved))
    return text  # type: ignore[no-any-return]
