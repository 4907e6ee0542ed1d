"""SQLite for callers without an event loop: each script runs in the caller's thread, on a connection of its own."""

from __future__ import annotations

import contextlib
import sqlite3
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from checkpoints.sql.reads import Script
from checkpoints.sql.sqlite.executor import connect, roll_back, run_script, set_synchronous
from checkpoints.sql.sqlite.fair_lock import FairLock

T = TypeVar("T")

MAX_IDLE = 8
"""Connections that are kept while no one uses them."""


class BlockingSqlite:
    """Runs scripts of any thread; writers take turns, readers wait for no one."""

    def __init__(self, path: str, lock: FairLock, *, synced: bool = True) -> None:
        """``lock``: the write lock of this process for the file. ``synced``: every commit waits for the disk."""
        self._path = path
        self._write_lock = lock
        self._synced = synced
        self._idle: deque[sqlite3.Connection] = deque()
        # A program that ends, or drops its storage, leaves no connection open and gets no warning.
        self._end = weakref.finalize(self, close_all, self._idle)

    def write(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script run in a transaction of its own."""
        with self._connection() as connection, self._write_lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = run_script(connection, make())
                connection.execute("COMMIT")
                return result
            finally:
                roll_back(connection)

    def read(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script that only reads."""
        with self._connection() as connection:
            return run_script(connection, make())

    def close(self) -> None:
        """Close the connections that no one uses; later calls open others."""
        close_all(self._idle)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self._path)
            set_synchronous(connection, self._synced, True)
        try:
            yield connection
        finally:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()


def close_all(idle: deque[sqlite3.Connection]) -> None:
    """Close connections."""
    while idle:
        with contextlib.suppress(IndexError):
            idle.pop().close()
