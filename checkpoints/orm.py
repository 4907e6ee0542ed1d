"""The ports on Django's default database. The hot path goes beside the ORM: raw statements, own connections.

Django's async methods share one thread per process; here nothing waits for it. Rows are the models' own, so
pages, admin and verbs read and write them with the ORM. Verbs write inside ``write()``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints import sqlite
from checkpoints.errors import Unsupported
from checkpoints.scripted import Database, ScriptedStorage
from checkpoints.scripts import Script, Scripts
from checkpoints.sql import POSTGRES, SQLITE, Dialect, Statements
from checkpoints.sqlite import SqliteDatabase

T = TypeVar("T")


@contextlib.contextmanager
def write(using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """One transaction of a verb: waits its turn on SQLite, so that it cannot starve or find the database locked.

    May be nested in one thread. Take locks in the order run, claim, requests. Never wait for a storage inside:
    its writer waits for this transaction.
    """
    turn = sqlite.gate if connections[using].vendor == "sqlite" else contextlib.nullcontext()
    with turn, transaction.atomic(using):
        yield


class DatabaseStorage(ScriptedStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` on SQLite or PostgreSQL. For any loop and thread."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        """``using`` names one of Django's databases; it is opened at first use."""
        super().__init__()
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
        return isinstance(error, (database.OperationalError, database.InterfaceError, database.InternalError))

    def _open(self) -> Database:
        return open_database(connections[self._using])


class PostgresDatabase:
    """A pool per loop."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        from checkpoints.postgres import Pools

        self.scripts = scripts_for(POSTGRES)
        self._pools = Pools(parameters)

    async def write(self, make: Callable[[], Script[T]]) -> T:
        """Run a script in a transaction."""
        return await self._pools.run(make)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._pools.run(make)

    async def aclose(self) -> None:
        """Close the pools."""
        await self._pools.aclose()


def open_database(connection: BaseDatabaseWrapper) -> Database:
    """Open beside Django what its settings say. ``Unsupported`` for other engines."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return SqliteDatabase(str(settings["NAME"]), scripts_for(SQLITE), sqlite.gate)
    if connection.vendor == "postgresql":
        return PostgresDatabase(postgres_parameters(settings))
    raise Unsupported(f"runs are kept in SQLite or PostgreSQL, not in {connection.vendor}: change DATABASES")


def postgres_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return psycopg's connection parameters from Django's settings."""
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return {name: settings[key] for name, key in names.items() if settings.get(key)}


def scripts_for(dialect: Dialect) -> Scripts:
    """Return the verbs in a dialect, with this project's table of users."""
    users = get_user_model()
    return Scripts(dialect, Statements(dialect, users=users._meta.db_table, username=users.USERNAME_FIELD))
