"""Runs scripts on a connection of PostgreSQL, and limits the time that a connection's thread waits for replies.

A script that begins with a whole batch runs in one round trip, others in one transaction, each batch of theirs in one
round trip.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from time import monotonic
from types import NoneType
from typing import Any, Protocol, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.generators import send
from psycopg.pq import ExecStatus, PipelineStatus
from psycopg.pq.abc import PGresult

from checkpoints.sql.reads import Script
from checkpoints.sql.statements import Rows, Statement
from checkpoints.sql.writes import WholeBatch

R = TypeVar("R")
LOOK_SECONDS = 0.1
"""psycopg's own, between two looks for a signal while it waits."""


class Patience(Protocol):
    """How many seconds this thread may still wait; None: as long as it takes."""

    left: float | None


class ImpatientConnection(psycopg.Connection[Any]):
    """Gives up a server that does not reply in the time that its thread has left."""

    patience: Patience

    def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:
        """Return what ``gen`` gives; ``OperationalError`` and a closed connection if the time is over before."""
        left = self.patience.left
        if left is None or timeout is not None:
            return super().wait(gen, interval, timeout)
        began = monotonic()
        try:
            return super().wait(gen, interval, max(left, 0.0))
        except psycopg.errors._WaitTimeout:
            self.pgconn.finish()  # a reply that comes later would be taken for that of another statement
            raise psycopg.OperationalError("the server did not reply in time: connection closed") from None
        finally:
            self.patience.left = left - (monotonic() - began)


def be_impatient(connection: Any, patience: Patience) -> Any:
    """Return the open connection, which keeps to this limit. One of another class than psycopg's own stays as it is."""
    if type(connection) is psycopg.Connection:
        connection.__class__ = ImpatientConnection  # Django's backend names no class to connect with
        cast(ImpatientConnection, connection).patience = patience
    return connection


MANY_ROWS = 250
"""Rows of a batch that a script is handed on the event loop, more in a thread: so many chunks are 256 KB of state."""
ASYNC_COMMIT = "SET LOCAL synchronous_commit TO off"
"""Statement that lets this transaction's commit return before it is flushed to disk."""
LOCK_TIMEOUT = "SET LOCAL lock_timeout TO '50ms'"
"""Statement that limits lock waits in a shared transaction: one blocked script would block all of them."""


class GroupRolledBack(Exception):
    """A shared transaction was rolled back before COMMIT: nothing of it was stored."""


class BegunScript:
    """A script, the batch it waits for, and its result once it has ended."""

    __slots__ = ("batch", "committed", "is_large", "result", "script")

    def __init__(self, script: Script[Any]) -> None:
        self.script = script
        self.batch: Sequence[Statement] | None = None
        """None once it has ended."""
        self.result: Any = None
        self.committed = False
        """Whether what it wrote is stored."""
        self.is_large = False
        """Whether it has read more rows than an event loop waits for it to understand."""
        self.resume(None)

    @property
    def is_whole(self) -> bool:
        """Whether its batch needs no transaction around it, and can be sent without the driver."""
        return isinstance(self.batch, WholeBatch) and all(
            TEXT_OF.keys() >= set(map(type, one)) for _, one in self.batch
        )

    def resume(self, rows: list[Rows] | None) -> Sequence[Statement] | None:
        """Hand it the rows of its batch and return the next one. Its errors are raised."""
        try:
            self.batch = self.script.send(rows)  # type: ignore[arg-type]
        except StopIteration as end:
            self.batch, self.result = None, end.value
        return self.batch


async def run_script(connection: Connection, script: Script[Any], *, flush: bool = True) -> Any:
    """Return the result of a script, run alone. ``flush``: its commit waits for the disk."""
    begun = BegunScript(script)
    await run_scripts(connection, [begun], flush=flush)
    return begun.result


async def run_scripts(connection: Connection, scripts: Sequence[BegunScript], *, flush: bool = True) -> None:
    """Run scripts to their ends: in one transaction those that are whole, in another the others.

    ``GroupRolledBack`` if several scripts were rolled back before COMMIT; a single script raises its own error. Those
    that are stored are ``committed`` either way.
    """
    try:
        hurried = len(scripts) > 1
        if whole := [one for one in scripts if one.is_whole]:
            await _write_whole(connection, whole, flush=flush, hurried=hurried)
        if rest := [one for one in scripts if not one.committed]:
            await _transact(connection, rest, flush=flush, hurried=hurried)
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            await connection.rollback()
        raise


async def _write_whole(connection: Connection, scripts: Sequence[BegunScript], *, flush: bool, hurried: bool) -> None:
    """Run the first batches of these scripts in one round trip; those that wrote nothing wait for their next batch."""
    statements = [statement for one in scripts for statement in one.batch or ()]
    try:
        found = await _written(connection, statements, flush=flush, hurried=hurried)
    except errors.IntegrityError:
        await connection.rollback()
        found = [[] for _ in statements]
    except psycopg.Error as error:
        # A server that ends the connection may have committed before: what is written again would find itself.
        surely = isinstance(error, errors.PipelineAborted) or error.diag.severity_nonlocalized == "ERROR"
        if not hurried or not surely:
            raise
        raise GroupRolledBack from error
    for one, rows in zip(scripts, found, strict=True):
        one.resume([rows])
        one.committed = one.batch is None


async def _written(
    connection: Connection, statements: Sequence[Statement], *, flush: bool, hurried: bool
) -> list[Rows]:
    """Return the rows of statements that are committed in the same round trip."""
    if len(statements) == 1 and flush and not hurried and connection.names is not None:
        return await fetch(connection, statements)
    before = [(sql, ()) for sql in beginning(connection, flush=flush, hurried=hurried)]
    return (await fetch(connection, [*before, *statements, ("COMMIT", ())]))[len(before) : -1]


async def _transact(connection: Connection, scripts: Sequence[BegunScript], *, flush: bool, hurried: bool) -> None:
    """Run scripts in one transaction side by side: the next batch of each in one round trip."""
    async with connection.pipeline() as pipeline:
        try:
            for sql in beginning(connection, flush=flush, hurried=hurried):
                await connection.execute(sql)
            while waiting := [one for one in scripts if one.batch is not None]:
                sent = [[await connection.execute(sql, params) for sql, params in one.batch or ()] for one in waiting]
                await connection.wait(send(connection.pgconn))  # As in ``run_blocking``.
                await pipeline.sync()
                for one, cursors in zip(waiting, sent, strict=True):
                    found = [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
                    one.is_large = one.is_large or max(map(len, found), default=0) > MANY_ROWS
                    if one.is_large:
                        await asyncio.to_thread(one.resume, found)
                    else:
                        one.resume(found)
        except Exception as error:
            if not hurried:
                raise
            raise GroupRolledBack from error
        await connection.execute("COMMIT")
    for one in scripts:
        one.committed = True


def beginning(connection: psycopg.Connection | Connection, *, flush: bool, hurried: bool = False) -> list[str]:
    """Return the statements that begin a transaction."""
    return [
        "BEGIN",
        *([set_up_transaction(connection.info.server_version)] if connection.prepare_threshold is None else []),
        *([] if flush else [ASYNC_COMMIT]),
        *([LOCK_TIMEOUT] if hurried else []),
    ]


# What PostgreSQL is asked to do for our connections: wait for the disk at each commit, and drop those that hang.

IDLE_IN_TRANSACTION_TIMEOUT = 10.0
"""Seconds a transaction may wait for its client: locks of a frozen process are released then, as is its claim."""
TRANSACTION_TIMEOUT = 30.0
"""Seconds a transaction may take in all (PostgreSQL 17+): a process may also freeze in the middle of a pipeline."""
TCP_KEEPALIVES = {"tcp_keepalives_idle": 5, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 2}
"""TCP keepalive settings by which the server drops a client whose machine is unreachable."""
IS_DIRECT = "pg_backend_pid() = {pid}"
"""A pooler gives its clients process numbers of its own."""


def limits(server_version: int) -> dict[str, int]:
    """Return the server's settings that bound our transactions, times in milliseconds."""
    total = {"transaction_timeout": int(TRANSACTION_TIMEOUT * 1000)} if server_version >= 170000 else {}
    return {"idle_in_transaction_session_timeout": int(IDLE_IN_TRANSACTION_TIMEOUT * 1000)} | total


def set_up_session(server_version: int, pid: int) -> str:
    """Return the statement that sets up a new connection, unless it leads through a pooler.

    Its first column says whether it is direct. ``pid``: the server process that the connection claims to lead to.
    """
    return _settings(limits(server_version) | TCP_KEEPALIVES, when=IS_DIRECT.format(pid=int(pid)), local=False)


@lru_cache(maxsize=8)
def set_up_transaction(server_version: int) -> str:
    """Return the statement that sets up one transaction on a connection that others share."""
    return _settings(limits(server_version), when="true", local=True)


def _settings(values: dict[str, int], *, when: str, local: bool) -> str:
    """Return one SELECT of these settings. ``local``: until the transaction's end."""
    end = f"{str(local).lower()}) END"
    columns = [f"CASE WHEN {when} THEN set_config('{name}', '{value}', {end}" for name, value in values.items()]
    unsafe = f"{when} AND current_setting('synchronous_commit') = 'off'"
    flushed = f"CASE WHEN {unsafe} THEN set_config('synchronous_commit', 'on', {end}"
    return ", ".join([f"SELECT {when}", flushed, *columns])


# A statement that each step writes, prepared once per connection and handed to libpq as it is.

MAX_PREPARED = 32
"""Statements that a connection keeps prepared at most."""
CANCEL_TIMEOUT = 5.0
"""Seconds until a statement that was cancelled counts as one whose end will not be heard of."""


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that knows what is prepared on it."""

    names: dict[str, bytes] | None = None
    """By statement; None where nothing may be prepared (through a pooler)."""
    prepared: int = 0
    """How often something was prepared on it: no name is given twice, as what became of one may not be known."""


async def fetch(connection: Connection, statements: Sequence[Statement]) -> list[Rows]:
    """Return the rows of statements, as text, in one round trip: one alone outside of a transaction, or several with
    the begin and end of theirs. psycopg's errors.
    """
    try:
        return await _fetched(connection, statements)
    except errors.InvalidSqlStatementName:
        # The driver ends all prepared statements of a connection on which it has rolled something back, and a statement
        # that failed may have kept the next ones from being prepared.
        await connection.rollback()
        connection.names = {}
        return await _fetched(connection, statements)


async def _fetched(connection: Connection, statements: Sequence[Statement]) -> list[Rows]:
    names, most = ({}, 0) if connection.names is None else (connection.names, MAX_PREPARED)
    given = [
        (sql, [TEXT_OF[type(value)](value) for value in params], [type(value) is bytes for value in params])
        for sql, params in statements
    ]
    pgconn, prepares = connection.pgconn, set[int]()
    if piped := len(given) > 1 or given[0][0] not in names:
        pgconn.enter_pipeline_mode()
    for place, (sql, values, forms) in enumerate(given):
        if (name := names.get(sql)) is None:
            name = b"step_%d" % connection.prepared if len(names) < most else b""
            connection.prepared += 1
            pgconn.send_prepare(name, numbered(sql))
            prepares.add(place + len(prepares))
            if name:
                names[sql] = name
        pgconn.send_query_prepared(name, values, forms)
    if piped:
        pgconn.pipeline_sync()
    try:
        results = await _arrived(connection)
    except asyncio.CancelledError:
        with contextlib.suppress(psycopg.Error, TimeoutError):
            await connection.cancel_safe(timeout=CANCEL_TIMEOUT)
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await _arrived(connection)
        raise
    for result in results:
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise errors.error_from_result(result)
    read = [[map(partial(one.get_value, row), range(one.nfields)) for row in range(one.ntuples)] for one in results]
    rows = [[tuple([None if text is None else text.decode() for text in row]) for row in table] for table in read]
    return [table for place, table in enumerate(rows) if place not in prepares]


async def _arrived(connection: Connection) -> list[PGresult]:
    """Return the results of what was sent, once all of them are here, and leave the pipeline."""
    pgconn = connection.pgconn
    while pgconn.flush():
        await _ready(pgconn.socket, writing=True)
        pgconn.consume_input()
    results, found = list[PGresult](), True
    while True:
        while pgconn.is_busy():
            await _ready(pgconn.socket)
            pgconn.consume_input()
        if (result := pgconn.get_result()) is None:
            # In a pipeline none comes after each statement, else after the last one.
            if pgconn.pipeline_status == PipelineStatus.OFF:
                return results
            if not found:
                raise psycopg.OperationalError("the server ended the connection")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            pgconn.exit_pipeline_mode()
            return results
        else:
            results.append(result)
        found = result is not None


async def _ready(socket: int, *, writing: bool = False) -> None:
    """Return once something can be read, or written."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(socket, _wake, ready)
    if writing:
        loop.add_writer(socket, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(socket)
        if writing:
            loop.remove_writer(socket)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


@lru_cache(maxsize=64)
def numbered(sql: str) -> bytes:
    """Return a statement with numbered parameters, as the server takes it, instead of the driver's marks."""
    first, *rest = sql.split("%s")
    return first.encode() + b"".join(b"$%d" % number + part.encode() for number, part in enumerate(rest, 1))


def _encoded(text: str) -> bytes:
    if "\0" in text:
        raise errors.DataError("PostgreSQL text fields cannot contain NUL (0x00) characters")
    return text.encode()


TEXT_OF: dict[type, Callable[[Any], bytes | None]] = {
    str: _encoded,
    int: b"%d".__mod__,
    bool: lambda value: b"t" if value else b"f",
    float: lambda value: repr(value).encode(),
    datetime: lambda value: value.isoformat().encode(),
    NoneType: lambda value: None,
    bytes: bytes,
}
"""How values go as text, and bytes as they are."""
