"""The ports on Django's default database. The hot path goes beside the ORM: raw statements, own connections.

Django's async methods share one thread per process; here nothing waits for it. Rows are the models' own, so
pages, admin and verbs read and write them with the ORM. Verbs write inside ``write()``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypeVar

from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints import sqlite
from checkpoints.chunks import Encoded, Encoder
from checkpoints.errors import Damaged, Unsupported
from checkpoints.ids import CheckpointId, RequestKey, RunId, new_checkpoint_id
from checkpoints.records import Answer, Checkpoint, CheckpointInfo, Claim, Commit, Event, RunFacts
from checkpoints.scripts import Prepared, Script, Scripts, text_of
from checkpoints.sql import POSTGRES, SQLITE, Dialect, Statements

T = TypeVar("T")

NO_LIMIT = 2**62


@contextlib.contextmanager
def write(using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """One transaction of a verb: waits its turn on SQLite, so that it cannot starve or find the database locked.

    May be nested in one thread. Take locks in the order run, claim, requests. Never wait for a storage inside:
    its writer waits for this transaction.
    """
    turn = sqlite.gate if connections[using].vendor == "sqlite" else contextlib.nullcontext()
    with turn, transaction.atomic(using):
        yield


class DatabaseStorage:
    """``CheckpointStorage``, ``Journal`` and ``Claims`` on SQLite or PostgreSQL. For any loop and thread."""

    def __init__(self, using: str = DEFAULT_DB_ALIAS) -> None:
        """``using`` names one of Django's databases; it is opened at first use."""
        self._using = using
        self._lock = Lock()
        self._database: SqliteDatabase | PostgresDatabase | None = None
        self._clock: tuple[float, datetime] | None = None

    async def aclose(self) -> None:
        """End threads and connections. The storage opens them again when it is used again."""
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            await database.aclose()

    def close(self) -> None:
        """End threads (SQLite); for callers without a loop."""
        with self._lock:
            database, self._database = self._database, None
        if isinstance(database, SqliteDatabase):
            database.close()

    def now(self) -> datetime:
        """Return the database's time, aware, UTC; this machine's until ``sync_clock`` was awaited."""
        if self._clock is None:
            return datetime.now(UTC)
        read_at, theirs = self._clock
        return theirs + timedelta(seconds=time.monotonic() - read_at)

    async def sync_clock(self) -> None:
        """Learn the database's time. From then on neither this machine's clock nor its jumps matter."""
        theirs = await self._read(lambda s: s.now())
        self._clock = time.monotonic(), theirs

    def is_outage(self, error: Exception) -> bool:
        """Say whether the database could not be reached or could not write, whatever was asked of it."""
        connection: Any = connections[self._using]
        database = connection.Database
        return isinstance(error, (database.OperationalError, database.InterfaceError, database.InternalError))

    # CheckpointStorage

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """See ``CheckpointStorage.save``."""
        await self.commit(Commit(run=checkpoint.run, checkpoint=checkpoint))
        return checkpoint.id

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        return await self._content(lambda s: s.load(run, checkpoint))

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        return await self._content(lambda s: s.latest(run))

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        return await self._read(lambda s: s.listing(run, NO_LIMIT if before is None else before, limit))

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        return await self._read(lambda s: s.ids(run))

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        return await self._write(lambda s: s.delete(run, checkpoint))

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        copy = new_checkpoint_id()
        await self._write(lambda s: s.fork(run, checkpoint, new_run, copy))
        return await self.load(new_run, copy)

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``."""
        encoded = None if commit.checkpoint is None else encoded_content(commit.checkpoint)
        events = tuple((e.kind, e.step, text_of(e.data)) for e in commit.events)
        given = Prepared(commit=commit, claim=claim, encoded=encoded, events=events)
        return await self._write(lambda s: s.commit(given))

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``."""
        return await self._read(lambda s: s.events(run, after, limit))

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``."""
        return await self._read(lambda s: s.answers(run))

    # Claims

    async def claim(self, run: RunId, *, worker: str, ttl: float) -> Claim | None:
        """See ``Claims.claim``."""
        return await self._write(lambda s: s.claim(run, worker, ttl))

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """See ``Claims.renew``."""
        return await self._write(lambda s: s.renew(claim, ttl))

    async def release(self, claim: Claim) -> None:
        """See ``Claims.release``."""
        await self._write(lambda s: s.release(claim))

    async def due(self, *, limit: int = 500) -> Sequence[RunId]:
        """See ``Claims.due``."""
        return await self._read(lambda s: s.due(limit))

    async def expire_claims(self, *, worker_prefix: str) -> None:
        """End every claim of workers whose name starts so: for whoever knows that they are gone."""
        await self._write(lambda s: s.expire(worker_prefix))

    async def read_run(self, run: RunId) -> RunFacts:
        """Return what driving the run needs; ``NotFound``."""
        return await self._read(lambda s: s.facts(run))

    # What the methods are made of

    async def _content(self, verb: Callable[[Scripts], Script[T]]) -> T:
        try:
            return await self._read(verb)
        except Damaged as error:
            run, checkpoint = error.facts["run"], error.facts["checkpoint"]
            await self._write(lambda s: s.mark_damaged(run, checkpoint))
            raise

    async def _write(self, verb: Callable[[Scripts], Script[T]]) -> T:
        database = self._database or self._open()
        return await database.write(lambda: verb(database.scripts))

    async def _read(self, verb: Callable[[Scripts], Script[T]]) -> T:
        database = self._database or self._open()
        return await database.read(lambda: verb(database.scripts))

    def _open(self) -> SqliteDatabase | PostgresDatabase:
        with self._lock:
            if self._database is None:
                self._database = open_database(connections[self._using])
            return self._database


class SqliteDatabase:
    """A writer thread and a reader thread."""

    def __init__(self, path: str) -> None:
        self.scripts = scripts_for(SQLITE)
        self._writer = sqlite.Writer(path)
        self._reader = sqlite.Reader(path)

    async def write(self, make: Callable[[], Script[T]]) -> T:
        """Run a script in a transaction, perhaps with others."""
        return await self._writer.submit(make)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._reader.submit(make)

    async def aclose(self) -> None:
        """End both threads once their queues are empty."""
        self.close()

    def close(self) -> None:
        """End both threads once their queues are empty."""
        self._writer.close()
        self._reader.close()


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


def open_database(connection: BaseDatabaseWrapper) -> SqliteDatabase | PostgresDatabase:
    """Open beside Django what its settings say. ``Unsupported`` for other engines."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return SqliteDatabase(str(settings["NAME"]))
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


def encoded_content(checkpoint: Checkpoint) -> Encoded:
    """Return a checkpoint's body and requests as text. ``ValueError`` if they are no JSON."""
    requests = [r.model_dump(mode="json") for r in checkpoint.requests]
    return Encoder().encode({"body": checkpoint.body, "requests": requests})
