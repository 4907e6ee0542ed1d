"""The ports on Django's default database. The hot path goes beside the ORM: raw statements, own connections.

Django's async methods share one thread per process; here nothing waits for it. Rows are the models' own, so
pages, admin and verbs read and write them with the ORM. Verbs write inside ``write()``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints import sqlite
from checkpoints.durability import Durability, parse_durability
from checkpoints.errors import Unsupported
from checkpoints.scripted import Database, ScriptedStorage
from checkpoints.scripts import Script, Scripts
from checkpoints.seal import sealer_of
from checkpoints.sql import POSTGRES, SQLITE, Dialect, Statements, waiting
from checkpoints.sqlite import SqliteDatabase

T = TypeVar("T")

CORRUPT = frozenset({"XX001", "XX002"})
"""PostgreSQL's codes for pages and indexes that it cannot read any more: trying again does not help."""
SYNCHRONOUS_FULL = 2
"""SQLite's number for it; 3 is stronger still."""


@contextlib.contextmanager
def write(using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """One transaction of a verb: waits its turn on SQLite, so that it cannot starve or find the database locked.

    May be nested in one thread. Take locks in the order run, claim, requests. Never wait for a storage inside:
    its writer waits for this transaction. What it commits survives a power failure, in either durability class.
    """
    connection = connections[using]
    turn = sqlite.gate if connection.vendor == "sqlite" else contextlib.nullcontext()
    with turn:
        if connection.vendor == "sqlite" and not connection.in_atomic_block:
            sync_file(connection)
        with transaction.atomic(using):
            if connection.vendor == "postgresql":
                run_statement(connection, waiting(local=True))
            yield


def sync_file(connection: BaseDatabaseWrapper) -> None:
    """Make commits wait for the disk, whatever the settings say. SQLite allows it between transactions alone."""
    ((level,),) = run_statement(connection, "PRAGMA synchronous")
    if level < SYNCHRONOUS_FULL:
        run_statement(connection, f"PRAGMA synchronous={SYNCHRONOUS_FULL}")


def run_statement(connection: BaseDatabaseWrapper, sql: str) -> list[Any]:
    """Run one statement and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


class DatabaseStorage(ScriptedStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` on SQLite or PostgreSQL. For any loop and thread."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        """``using`` names one of Django's databases; it is opened at first use."""
        super().__init__(sealer_of(getattr(settings, "WFDASH_ENCRYPTION_KEYS", "")))
        self._using = using

    def close(self) -> None:
        """End threads (SQLite); for callers without a loop."""
        database = self._closed()
        if isinstance(database, SqliteDatabase):
            database.close()

    def is_outage(self, error: Exception) -> bool:
        """Say whether the database could not be reached or could not write, whatever was asked of it."""
        connection: Any = connections[self._using]
        database = connection.Database
        failed = isinstance(error, (database.OperationalError, database.InterfaceError, database.InternalError))
        return failed and getattr(error, "sqlstate", None) not in CORRUPT

    def _open(self) -> Database:
        return open_database(connections[self._using])


class PostgresDatabase:
    """A pool per loop."""

    def __init__(self, parameters: dict[str, Any], *, durability: Durability = Durability.FULL) -> None:
        from checkpoints.postgres import Pools

        self.scripts = scripts_for(POSTGRES)
        self._pools = Pools(parameters, durability=durability)

    async def write(self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False) -> T:
        """Run a script in a transaction, if it is ``shared`` perhaps with others."""
        return await self._pools.run(make, sync=sync, shared=shared)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._pools.run(make)

    async def aclose(self) -> None:
        """Close the pools."""
        await self._pools.aclose()


def open_database(connection: BaseDatabaseWrapper) -> Database:
    """Open beside Django what its settings say. ``Unsupported`` for other engines."""
    parameters = connection.settings_dict
    durability = parse_durability(getattr(settings, "WFDASH_DURABILITY", Durability.FULL))
    if connection.vendor == "sqlite":
        path = str(parameters["NAME"])
        return SqliteDatabase(path, scripts_for(SQLITE), sqlite.gate, durability=durability)
    if connection.vendor == "postgresql":
        return PostgresDatabase(postgres_parameters(parameters), durability=durability)
    raise Unsupported(f"runs are kept in SQLite or PostgreSQL, not in {connection.vendor}: change DATABASES")


def postgres_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return psycopg's connection parameters from Django's settings of a database."""
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return {name: given[key] for name, key in names.items() if given.get(key)}


def scripts_for(dialect: Dialect) -> Scripts:
    """Return the verbs in a dialect, with this project's table of users."""
    users = get_user_model()
    return Scripts(dialect, Statements(dialect, users=users._meta.db_table, username=users.USERNAME_FIELD))
