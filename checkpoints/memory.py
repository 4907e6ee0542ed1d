"""All ports in a SQLite database in memory: for tests, notebooks and libraries. Nothing survives the process."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from checkpoints.sql.reads import Script
from checkpoints.sql.sqlite import roll_back, run_script
from checkpoints.sql.sqlite_schema import create_tables
from checkpoints.sql.storage import StandaloneStorage, standalone_scripts
from checkpoints.sql.writes import Database, Scripts

T = TypeVar("T")


class MemoryStorage(StandaloneStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` in memory. For any loop and thread of one process.

    Stored data lives as long as this object: ``aclose()`` ends the renewal of claims and keeps the runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        create_tables(self._connection)

    def _open(self) -> Database:
        return MemoryDatabase(self._connection, standalone_scripts(self.encryptor))


class MemoryDatabase:
    """Runs each script to its end in the caller's thread, one at a time."""

    def __init__(self, connection: sqlite3.Connection, scripts: Scripts) -> None:
        self.scripts = scripts
        self._connection = connection
        self._lock = threading.Lock()

    async def write(
        self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False, writer: str = ""
    ) -> T:
        """Run a script in a transaction of its own."""
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                result = run_script(self._connection, make())
                self._connection.execute("COMMIT")
                return result
            finally:
                roll_back(self._connection)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        with self._lock:
            return run_script(self._connection, make())

    async def aclose(self) -> None:
        """Keep the stored data."""

    async def aclose_loop(self) -> None:
        """Do nothing: there is nothing per event loop."""
