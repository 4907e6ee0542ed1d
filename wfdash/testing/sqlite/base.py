"""The bench's clock, and its database engine: Django's for SQLite, by that clock."""

from __future__ import annotations

import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.backends.sqlite3 import base

opened: list[sqlite3.Connection] = []
"""Connections of the bench that is open, in all threads: those of threads that outlive it must not outlive it too."""


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to the bench's file."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection for which ``now`` is the bench's."""
        connection = super().get_new_connection(conn_params)
        connection.create_function("strftime", -1, strftime)
        opened.append(connection)
        return connection

    def ensure_connection(self) -> None:
        """Connect. pytest-django blocks Django's own method, to guard the project's database: this is another."""
        if self.connection is None:
            with self.wrap_database_errors:
                self.connect()


# The bench's clock: this machine's, moved. Django, the ORM's ``Now()`` and the storage all follow it.

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
