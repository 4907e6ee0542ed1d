"""A statement that each step writes, prepared once per connection and handed to libpq as it is.

The driver's cursors are made for any statement with any values, which was a tenth of a step's processor time. Here
values are of a few plain types, and go as text; what comes back is text, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from types import NoneType
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from checkpoints.sql.statements import Rows

MAX_PREPARED = 32
"""Statements that a connection keeps prepared at most."""
CANCEL_TIMEOUT = 5.0
"""Seconds until a statement that was cancelled counts as one whose end will not be heard of."""
UTF8 = "utf-8"


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that knows what is prepared on it."""

    names: dict[str, bytes] | None = None
    """By statement; None where nothing may be prepared (through a pooler), or text is not sent as UTF-8."""
    prepared: int = 0
    """How often something was prepared on it: no name is given twice, as what became of one may not be known."""


def can_prepare(connection: Connection, params: Sequence[Any]) -> bool:
    """Return whether ``fetch`` takes a statement with these parameters."""
    return connection.names is not None and TEXT_OF.keys() >= set(map(type, params))


async def fetch(connection: Connection, sql: str, params: Sequence[Any]) -> Rows:
    """Return the rows of a statement, as text, outside of a transaction. psycopg's errors."""
    values = [TEXT_OF[type(value)](value) for value in params]
    try:
        result = await _executed(connection, sql, values)
    except errors.InvalidSqlStatementName:
        # The driver ends all prepared statements of a connection on which it has rolled something back.
        connection.names = {}
        result = await _executed(connection, sql, values)
    fields = range(result.nfields)
    return [tuple(_decoded(result.get_value(row, field)) for field in fields) for row in range(result.ntuples)]


async def _executed(connection: Connection, sql: str, values: list[bytes | None]) -> PGresult:
    names = connection.names if connection.names is not None else {}
    if (name := names.get(sql)) is None:
        name = b"step_%d" % connection.prepared if len(names) < MAX_PREPARED else b""
        connection.prepared += 1
        connection.pgconn.send_prepare(name, numbered(sql))
        await _result(connection)
        if name:
            names[sql] = name
    connection.pgconn.send_query_prepared(name, values)
    return await _result(connection)


async def _result(connection: Connection) -> PGresult:
    """Return the result of what was sent. Its error is raised."""
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
    return results[-1]


async def _arrived(connection: Connection) -> list[PGresult]:
    """Return the results of what was sent, once all of them are here."""
    pgconn = connection.pgconn
    while pgconn.flush():
        await _ready(pgconn.socket, writing=True)
        pgconn.consume_input()
    while pgconn.is_busy():
        await _ready(pgconn.socket)
        pgconn.consume_input()
    results = []
    while (result := pgconn.get_result()) is not None:
        results.append(result)
    return results


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


def numbered(sql: str) -> bytes:
    """Return a statement with numbered parameters, as the server takes it, instead of the driver's marks."""
    first, *rest = sql.split("%s")
    return first.encode() + b"".join(b"$%d" % number + part.encode() for number, part in enumerate(rest, 1))


def _encoded(text: str) -> bytes:
    if "\0" in text:
        raise errors.DataError("PostgreSQL text fields cannot contain NUL (0x00) characters")
    return text.encode()


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


TEXT_OF: dict[type, Callable[[Any], bytes | None]] = {
    str: _encoded,
    int: b"%d".__mod__,
    bool: lambda value: b"t" if value else b"f",
    float: lambda value: repr(value).encode(),
    datetime: lambda value: value.isoformat().encode(),
    NoneType: lambda value: None,
}
"""How values go as text."""
