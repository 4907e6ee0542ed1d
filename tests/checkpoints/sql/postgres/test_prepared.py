"""A step's statement goes to libpq as it is: what it writes, reads and raises is what the driver would have."""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from django.db import connections

from checkpoints.sql import postgres_scripts
from checkpoints.sql.conninfo import parameters_of
from checkpoints.sql.postgres import configure
from checkpoints.sql.postgres_scripts import BegunScript, Connection
from checkpoints.sql.writes import WholeBatch

pytestmark = pytest.mark.postgres

AT = datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC)
VALUES = ("a 'ü' %s $1 \\ \U0001f600", "", -7, 2**62, True, False, 0.1 + 0.2, 1e300, AT, None)
TYPES = ("text", "text", "int", "bigint", "bool", "bool", "float8", "float8", "timestamptz", "text")
COUNT = "SELECT count(*) FROM pg_prepared_statements"


@pytest_asyncio.fixture
async def connection(postgres_alias: str) -> AsyncIterator[Connection]:
    """Give a connection that is set up as the storage's."""
    parameters = parameters_of(connections[postgres_alias].settings_dict)
    async with await Connection.connect(**parameters, autocommit=True) as found:
        await configure(found)
        yield found


async def fetch(connection: Connection, sql: str, params: tuple[Any, ...]) -> Any:
    return (await postgres_scripts.fetch(connection, [(sql, params)]))[0]


async def read(connection: Connection, sql: str, *params: Any) -> Any:
    """Return the first value of the first row, by the driver."""
    (found,) = await (await connection.execute(sql, params)).fetchone() or (None,)
    return found


async def test_values_are_those_that_the_driver_sends(connection: Connection) -> None:
    for value, name in zip(VALUES, TYPES, strict=True):
        echo = f"SELECT %s::{name}::text"
        assert await fetch(connection, echo, (value,)) == [(await read(connection, echo, value),)]


async def test_a_statement_is_prepared_once_and_only_so_many_are_kept(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_scripts, "MAX_PREPARED", 2)
    for number in (*range(4), *range(4)):
        assert await fetch(connection, f"SELECT {number} + %s::int", (1,)) == [(str(number + 1),)]
    assert await read(connection, COUNT) == 2


async def test_what_the_driver_has_ended_is_prepared_again(connection: Connection) -> None:
    await fetch(connection, "SELECT %s::int", (1,))
    await connection.execute("DEALLOCATE ALL")
    assert await fetch(connection, "SELECT %s::int", (2,)) == [("2",)]
    assert await read(connection, COUNT) == 1


async def test_errors_are_the_drivers_and_the_connection_stays_good(connection: Connection) -> None:
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero) as caught:
            await fetch(connection, "SELECT 1 / %s::int", (0,))
        assert caught.value.diag.severity_nonlocalized == "ERROR"
    with pytest.raises(psycopg.DataError, match="NUL"):
        await fetch(connection, "SELECT %s::text", ("a\0b",))
    assert await fetch(connection, "SELECT 1 / %s::int", (1,)) == [("1",)]


async def test_more_than_a_socket_takes_at_once_arrives(connection: Connection) -> None:
    text = "ü" * 3_000_000
    assert await fetch(connection, "SELECT length(%s::text), right(%s::text, 1)", (text, text)) == [("3000000", "ü")]


async def test_who_is_cancelled_leaves_no_statement_running(connection: Connection) -> None:
    waiting = asyncio.create_task(fetch(connection, "SELECT pg_sleep(%s::int)", (60,)))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await fetch(connection, "SELECT %s::int", (1,)) == [("1",)]


async def test_a_statement_is_prepared_again_where_the_first_task_was_cancelled(connection: Connection) -> None:
    preparing = asyncio.create_task(fetch(connection, "SELECT %s::int", (1,)))
    while connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
        await asyncio.sleep(0)
    # It is prepared, and this task does not hear of it.
    select.select([connection.pgconn.socket], [], [], 10)
    preparing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await preparing
    assert await fetch(connection, "SELECT %s::int", (2,)) == [("2",)]


async def test_a_server_that_ends_the_connection_is_an_outage(connection: Connection) -> None:
    with pytest.raises(psycopg.OperationalError):
        await fetch(connection, "SELECT pg_terminate_backend(pg_backend_pid()), %s::int", (1,))
    assert connection.pgconn.status == psycopg.pq.ConnStatus.BAD


async def test_nothing_is_kept_through_a_pooler_and_other_types_are_the_drivers(connection: Connection) -> None:
    connection.names = None
    assert await fetch(connection, "SELECT %s::int", (1,)) == [("1",)]
    assert await read(connection, COUNT) == 0
    assert not BegunScript(one for one in [WholeBatch([("", ([1],))])]).is_whole
