"""Django's engine for SQLite, whose time is the bench's, and which pytest-django does not block."""

from __future__ import annotations

import sqlite3
from typing import Any

from django.db.backends.sqlite3 import base

from wfdash.testing.clock import strftime

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
