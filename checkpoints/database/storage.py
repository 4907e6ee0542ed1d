"""The storage ports on Django's database. The hot path bypasses the ORM: raw statements, own connections.

Django's async methods share one thread per process; nothing here waits for it. Rows are the models' own, so pages,
admin and actions read and write them with the ORM. Actions write inside ``write()``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.content.encryption import Encryptor, encryptor_of
from checkpoints.database.alias import alias
from checkpoints.database.compiled import UpdateStatement
from checkpoints.errors import (
    Conflict,
    InvalidConfig,
    StorageFailed,
    Unsupported,
    lost_its_server,
    raise_if_driver_failed,
)
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.limits import findable
from checkpoints.records import Claim, Commit, Json
from checkpoints.rules import BUDGET, priced
from checkpoints.sql import sqlite
from checkpoints.sql.conninfo import parameters_of
from checkpoints.sql.durability import Durability, parse_durability
from checkpoints.sql.reads import LIVE, Script
from checkpoints.sql.sqlite import SqliteDatabase
from checkpoints.sql.statements import (
    POSTGRES,
    SQLITE,
    SYNCHRONOUS_COMMIT,
    Dialect,
    Statements,
)
from checkpoints.sql.storage import SqlStorage
from checkpoints.sql.tables import UserTable
from checkpoints.sql.writes import Database, Scripts

T = TypeVar("T")

CORRUPT = frozenset({"XX001", "XX002"})
"""PostgreSQL's error codes for corrupt pages and indexes: a retry does not help."""
OF_ANOTHER = frozenset({"26000", "42P05"})
"""Its codes for a prepared statement that another client of a pooler has, or has not: a later connection may do."""
SYNCHRONOUS_FULL = 2
"""SQLite's number for it; 3 is stronger still."""
_readable: set[tuple[str, str, Encryptor]] = set()
"""Databases by alias and name, with the keys by which this process has found them readable."""
DEPTH = "_wfdash_final_writes"
"""The attribute of a connection that counts the blocks it is in."""


@dataclass(frozen=True)
class FinalWrite(Generic[T]):
    """A write that waits among the callbacks of its transaction: Django drops it with its savepoint."""

    write: Callable[[Sequence[T]], object]
    item: T

    def __call__(self) -> None:
        """Do it alone."""
        self.write([self.item])


@contextlib.contextmanager
def write(using: str | None = None) -> Iterator[None]:
    """Return a context manager: one transaction of an action, under the fair write lock on SQLite.

    May be nested in one thread. Take locks in the order of docs/internals/architecture.md. Never wait for a storage:
    its writer waits for this transaction. What it commits survives a power failure, in either durability class.
    """
    using = using or alias()
    connection = connections[using]
    # Within a transaction this thread has SQLite's own lock already: who has the fair one may be waiting for that.
    outermost = connection.vendor == "sqlite" and not connection.in_atomic_block
    with sqlite.write_lock if outermost else contextlib.nullcontext():
        if outermost:
            sync_file(connection)
        with transaction.atomic(using), _final_writes(connection):
            yield


def write_last(connection: BaseDatabaseWrapper, write: Callable[[Sequence[T]], object], item: T) -> None:
    """Call ``write`` with all that it is given for this transaction, right before the commit; now, outside of
    ``write()``.
    """
    last = FinalWrite(write, item)
    if getattr(connection, DEPTH, 0):
        connection.on_commit(last)
    else:
        last()


@contextlib.contextmanager
def _final_writes(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Return a context manager within a transaction: the outermost does what was left for its end, and makes the commit
    wait for the disk.
    """
    depth = getattr(connection, DEPTH, 0)
    setattr(connection, DEPTH, depth + 1)
    vars(connection)["commit_waits"] = False
    try:
        yield
        if not depth:
            _do_final_writes(connection)
            if connection.vendor == "postgresql" and not vars(connection)["commit_waits"]:
                run_statement(connection, f"SELECT {SYNCHRONOUS_COMMIT}")
    finally:
        setattr(connection, DEPTH, depth)


def _do_final_writes(connection: BaseDatabaseWrapper) -> None:
    waiting: list[Any] = connection.run_on_commit
    found: defaultdict[Callable[[Sequence[Any]], object], list[Any]] = defaultdict(list)
    for _, call, *_ in waiting:
        if isinstance(call, FinalWrite):
            found[call.write].append(call.item)
    if found:
        connection.run_on_commit = [one for one in waiting if not isinstance(one[1], FinalWrite)]
        for write, items in found.items():
            write(items)


def update_last(connection: BaseDatabaseWrapper, update: UpdateStatement, **given: Any) -> int:
    """Execute an update among the last writes of a transaction (``write_last``) and return how many rows that were.

    On PostgreSQL an update that finds a row also makes the commit wait for the disk, which ``write()`` then need not
    ask for by a statement of its own.
    """
    if connection.vendor != "postgresql":
        return update.execute(**given)
    found = replace(update, sql=f"{update.sql} RETURNING {SYNCHRONOUS_COMMIT}").execute(**given)
    if found:
        vars(connection)["commit_waits"] = True
    return found


def sync_file(connection: BaseDatabaseWrapper) -> None:
    """Make commits wait for the disk, whatever the settings say: once for each time it connects. SQLite allows it only
    between transactions.
    """
    if connection.connection is not None and vars(connection).get("synced") is connection.connection:
        return
    ((level,),) = run_statement(connection, "PRAGMA synchronous")
    if level < SYNCHRONOUS_FULL:
        run_statement(connection, f"PRAGMA synchronous={SYNCHRONOUS_FULL}")
    vars(connection)["synced"] = connection.connection


def run_statement(connection: BaseDatabaseWrapper, sql: str) -> list[Any]:
    """Run one statement and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


class DatabaseStorage(SqlStorage):
    """``CheckpointStorage``, ``Journal`` and ``Claims`` on SQLite or PostgreSQL. For any loop and thread.

    Use it with ``async with``, or call ``aclose()`` once it is no longer needed. On PostgreSQL each event loop has
    connections of its own; those of a loop that ended without ``aclose()`` are closed when the next one needs some.
    """

    def __init__(self, using: str | None = None) -> None:
        """``using`` names one of Django's databases, else it is wfdash's; it is opened at first use."""
        super().__init__(encryptor_of(getattr(settings, "WFDASH_ENCRYPTION_KEYS", "")))
        self._using = using or alias()
        self._place = f"database {self._using!r}"

    def close(self) -> None:
        """End threads (SQLite); for callers without a loop."""
        database = self._closed()
        if isinstance(database, SqliteDatabase):
            database.close()

    def commit(self, commit: Commit, *, claim: Claim | None = None) -> Coroutine[Any, Any, int]:
        """See ``Journal.commit``. Usage of models gets its cost by the operator's prices."""
        return super().commit(priced(commit, getattr(settings, "WFDASH_PRICES", {})), claim=claim)

    async def take(
        self, run: RunId, *, worker: str, ttl: float, head: CheckpointId | None, stopped: bool = False
    ) -> Claim:
        """See ``Claims.take``. ``Conflict``, too, for a run that someone asked to end after a step: none runs now."""
        if stopped:
            return await super().take(run, worker=worker, ttl=ttl, head=head, stopped=True)
        return await self._write(lambda s: take_unless_ending(s, findable(run), worker, ttl, head), sync=False)

    def is_outage(self, error: Exception) -> bool:
        """Return whether an error (a storage's, a driver's or Django's) means that the database was away or full."""
        while isinstance(error, StorageFailed | Error) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        connection: Any = connections[self._using]
        database = connection.Database
        failed = isinstance(error, (database.OperationalError, database.InterfaceError, database.InternalError))
        failed = failed or lost_its_server(error)
        code = getattr(error, "sqlstate", None)
        return (failed and code not in CORRUPT) or (isinstance(error, database.Error) and code in OF_ANOTHER)

    async def answer(self, run: RunId, key: RequestKey, value: Json, *, by: str | None = None) -> None:
        """Accept a program's answer to its own run, as ``SqlStorage.answer`` does.

        ``Unsupported`` with ``by``, and for a run that the dashboard's workers have: people answer in the dashboard or
        by its API, with their own right.
        """
        if by is not None:
            raise Unsupported("by= names a person: they answer in the dashboard, or by its API, with their own right")
        await super().answer(run, key, value)

    async def delete_run(self, run: RunId, *, force: bool = False) -> bool:
        """See ``Runs.delete_run``. Replies and comments are deleted too; the audit and the content it stores stay."""
        from checkpoints.database import runs

        return await self.forget_run(run, await self._in_thread(lambda: runs.remove_run(self._using, run, force=force)))

    async def _in_thread(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(self._in_one_transaction, act)
        except Error as error:
            raise_if_driver_failed(error, self._place)
            raise

    def _in_one_transaction(self, act: Callable[[], T]) -> T:
        try:
            with write(self._using):
                return act()
        finally:
            connections[self._using].close()

    def _open(self) -> Database:
        connection = connections[self._using]
        refuse_missing_keys(connection, self.encryptor)
        return open_database(connection, self.encryptor)


def take_unless_ending(
    scripts: Scripts, run: RunId, worker: str, ttl: float, head: CheckpointId | None
) -> Script[Claim]:
    """Claim a run as ``Scripts.take`` does. ``Conflict``, too, if someone asked it to end while no one drives it, or
    while it waits at its budget: a worker acts on what people decide there.
    """
    wish = "SELECT ending, ending_as FROM checkpoints_run r WHERE id=? AND ending<>'' AND NOT"
    held = "SELECT 1 FROM checkpoints_humanrequest WHERE run_id=? AND closed IS NULL AND substr(key, 1, length(?))=?"
    say = scripts.dialect.sql
    rows, asked = yield [(say(f"{wish} {LIVE}"), (run,)), (say(held), (run, BUDGET, BUDGET))]
    for by, phase in rows:
        raise Conflict(f"{by} asked that the run is {phase} after its step: resume it first", run=run, by=by)
    if asked:
        raise Conflict("the run waits at its budget: a person decides, then a worker continues it", run=run)
    return (yield from scripts.take(run, worker, ttl, head))


class PostgresDatabase:
    """A pool per loop."""

    def __init__(
        self, parameters: dict[str, Any], scripts: Scripts, *, durability: Durability = Durability.FULL
    ) -> None:
        from checkpoints.sql.postgres import Pools

        self.scripts = scripts
        self._pools = Pools(parameters, durability=durability)

    async def write(
        self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False, writer: str = ""
    ) -> T:
        """Run a script in a transaction, a ``shared`` one maybe together with others."""
        return await self._pools.run(make, sync=sync, shared=shared)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._pools.run(make)

    async def aclose(self) -> None:
        """Close the pools."""
        await self._pools.aclose()

    async def aclose_loop(self) -> None:
        """Close the pool of this event loop."""
        await self._pools.aclose_loop()


def refuse_missing_keys(connection: BaseDatabaseWrapper, encryptor: Encryptor) -> None:
    """``InvalidConfig`` if content of this database is encrypted with a key that is not in the ring, or with none.

    The storage's threads and loops may use none of Django's connections, so this has one of its own, once per process.
    A database that cannot be read is left to what reads it next, and asked again.
    """
    name = str(connection.settings_dict["NAME"])
    place = (connection.alias, name, encryptor)
    wrapper: Any = connection
    driver = wrapper.Database
    if place in _readable or connection.vendor not in {"sqlite", "postgresql"}:
        return
    try:
        if connection.vendor == "sqlite":
            own = driver.connect(f"file:{quote(name)}?mode=ro", uri=True)
        else:
            own = driver.connect(**parameters_of(connection.settings_dict))
        with contextlib.closing(own):
            found = own.execute("SELECT content_keys FROM checkpoints_installation").fetchall()
    except driver.Error:
        return
    stored = found[0][0] if found else None
    if problem := encryptor.problem(json.loads(stored) if isinstance(stored, str) else stored or ()):
        raise InvalidConfig(problem)
    _readable.add(place)


def open_database(connection: BaseDatabaseWrapper, encryptor: Encryptor) -> Database:
    """Return the storage's own access to Django's database. ``Unsupported`` for other engines."""
    parameters = connection.settings_dict
    durability = parse_durability(getattr(settings, "WFDASH_DURABILITY", Durability.FULL))
    if connection.vendor == "sqlite":
        path = str(parameters["NAME"])
        return SqliteDatabase(path, scripts_for(SQLITE, encryptor), sqlite.write_lock, durability=durability)
    if connection.vendor == "postgresql":
        return PostgresDatabase(parameters_of(parameters), scripts_for(POSTGRES, encryptor), durability=durability)
    raise unsupported(connection)


def unsupported(connection: BaseDatabaseWrapper) -> Unsupported:
    """Return the error for a database of another engine."""
    return Unsupported(
        f"Runs cannot be kept in {connection.vendor}: use SQLite or PostgreSQL in DATABASES[{connection.alias!r}]"
    )


def scripts_for(dialect: Dialect, encryptor: Encryptor) -> Scripts:
    """Return the scripts in a dialect, with this project's table of users."""
    users: Any = get_user_model()
    model = users._meta
    names = model.db_table, model.pk.column, model.get_field(users.USERNAME_FIELD).column
    table, key, name = (f'"{written}"' for written in names)  # so that "user" is a name in PostgreSQL, too
    return Scripts(dialect, Statements(dialect, users=UserTable(table=table, key=key, name=name)), encryptor)
