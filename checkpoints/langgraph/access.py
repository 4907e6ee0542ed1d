"""How a saver reaches its database: from any event loop, and from any thread without one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from threading import Lock
from typing import Protocol, TypeVar

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.content.encryption import encryptor_of
from checkpoints.database.alias import alias
from checkpoints.database.storage import open_database, unsupported
from checkpoints.errors import Conflict, raise_if_driver_failed
from checkpoints.langgraph.pruning import ThreadPruning
from checkpoints.sql.durability import Durability, parse_durability
from checkpoints.sql.postgres.conninfo import parameters_of
from checkpoints.sql.reads import Script
from checkpoints.sql.sqlite.blocking import BlockingSqlite
from checkpoints.sql.sqlite.executor import SqliteDatabase, write_lock
from checkpoints.sql.statements import POSTGRES, SQLITE, Statements
from checkpoints.sql.writes import Database

T = TypeVar("T")
Verb = Callable[[ThreadPruning], Script[T]]
"""What to run, of a dialect's scripts."""

WITHIN = (
    "a graph cannot be run inside of a transaction of its saver's database: each checkpoint is a commit of its own, "
    "which a rollback would not undo. Run it before or after, with @transaction.non_atomic_requests in a view, and in "
    "tests with TransactionTestCase"
)
caller: ContextVar[BaseDatabaseWrapper | None] = ContextVar("caller", default=None)
"""The connection of the thread that a graph was called in: graphs save in other threads, but with its context."""


class Access:
    """The database of a saver and of its clones, opened at first use."""

    def __init__(self, using: str | None) -> None:
        """``using`` names one of Django's databases, else it is wfdash's. ``Unsupported`` for other engines."""
        self.using = using or alias()
        connection = connections[self.using]
        if connection.vendor not in ("sqlite", "postgresql"):
            raise unsupported(connection)
        dialect = POSTGRES if connection.vendor == "postgresql" else SQLITE
        encryptor = encryptor_of(getattr(settings, "WFDASH_ENCRYPTION_KEYS", ""))
        self._scripts = ThreadPruning(dialect, Statements(dialect), encryptor)
        self._lock = Lock()
        self._database: Database | None = None
        self._blocking: BlockingDatabase | None = None

    # From an event loop

    async def read(self, verb: Verb[T]) -> T:
        """Return the result of a script that only reads."""
        self._note_caller()
        with self._reporting():
            return await self._opened().read(lambda: verb(self._scripts))

    async def write(self, verb: Verb[T], writer: str) -> T:
        """Return the result of a script, run in a transaction that others may share. ``Conflict`` inside of one.

        ``writer``: see ``Database.write``.
        """
        self._refuse_transaction()
        with self._reporting():
            database = self._opened()
            return await database.write(lambda: verb(self._scripts), sync=False, shared=True, writer=writer)

    async def aclose(self) -> None:
        """End threads and connections. They are opened again when they are needed."""
        with self._lock:
            database, self._database = self._database, None
        self._close_blocking()
        if database is not None:
            await database.aclose()

    # From any thread

    def read_blocking(self, verb: Verb[T]) -> T:
        """Return the result of a script that only reads."""
        self._note_caller()
        with self._reporting():
            return self._opened_blocking().read(lambda: verb(self._scripts))

    def write_blocking(self, verb: Verb[T]) -> T:
        """Return the result of a script, run in a transaction of its own. ``Conflict`` inside of one."""
        self._refuse_transaction()
        with self._reporting():
            return self._opened_blocking().write(lambda: verb(self._scripts))

    def close(self) -> None:
        """End threads and connections, without an event loop: those of a loop that still runs are its own to close."""
        with self._lock:
            database = self._database
            if isinstance(database, SqliteDatabase):
                database.close()
                self._database = None
        self._close_blocking()

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        """Return a context manager that raises ``StorageFailed`` for an error of the driver."""
        try:
            yield
        except Exception as error:
            raise_if_driver_failed(error, f"database {self.using!r}")
            raise

    def _close_blocking(self) -> None:
        with self._lock:
            blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()

    def _opened(self) -> Database:
        if self._database is None:
            with self._lock:
                if self._database is None:
                    self._database = open_database(connections[self.using], self._scripts.encryptor)
        return self._database

    def _opened_blocking(self) -> BlockingDatabase:
        if self._blocking is None:
            with self._lock:
                if self._blocking is None:
                    self._blocking = open_blocking(connections[self.using])
        return self._blocking

    def _note_caller(self) -> None:
        caller.set(connections[self.using])

    def _refuse_transaction(self) -> None:
        for connection in (connections[self.using], caller.get()):
            if connection is not None and connection.in_atomic_block and connection.alias == self.using:
                raise Conflict(WITHIN, database=self.using)


class BlockingDatabase(Protocol):
    """Runs scripts in the caller's thread."""

    def read(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script that only reads."""

    def write(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script run in a transaction of its own."""

    def close(self) -> None:
        """Close the connections that no one uses."""


def open_blocking(connection: BaseDatabaseWrapper) -> BlockingDatabase:
    """Return access to one of Django's databases for any thread."""
    full = parse_durability(getattr(settings, "WFDASH_DURABILITY", Durability.FULL)) is Durability.FULL
    if connection.vendor == "sqlite":
        return BlockingSqlite(str(connection.settings_dict["NAME"]), write_lock, synced=full)
    from checkpoints.sql.postgres.blocking import BlockingPostgres

    return BlockingPostgres(parameters_of(connection.settings_dict), flush=full)
