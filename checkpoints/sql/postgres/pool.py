"""PostgreSQL: a pool of connections for one event loop, without tasks of its own.

Connections are opened by the caller that needs one, so nothing is left to cancel when a loop ends. A connection that is
not returned idle is closed; after a broken one all idle ones are closed too, because their server is gone as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus

from checkpoints.sql.postgres.prepared import Connection

CONNECT_TIMEOUT = 3.0
"""Seconds for which connecting to an unreachable server is retried."""
FIRST_PAUSE = 0.05
"""Seconds before the second attempt; doubled for each further one."""
LONGEST_PAUSE = 0.5
ACQUIRE_TIMEOUT = 30.0
"""Seconds to wait for a free connection when the pool is exhausted."""
MAX_IDLE = 60.0
"""Seconds after which an idle connection is closed."""


class Pool:
    """At most ``size`` connections of one event loop; the one used last is used first."""

    def __init__(
        self, parameters: dict[str, Any], size: int, configure: Callable[[Connection], Awaitable[None]]
    ) -> None:
        """``configure`` is awaited for each new connection. The first is opened when it is needed."""
        self._parameters = parameters
        self._configure = configure
        self._free = asyncio.Semaphore(size)
        self._idle: deque[tuple[Connection, float]] = deque()
        self._closed = False
        # A program that ends, or drops its storage, leaves no connection open and gets no warning.
        self._end = weakref.finalize(self, finish_all, self._idle)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Return a context manager with a connection. ``psycopg.OperationalError`` if none can be had."""
        await self._acquire()
        try:
            connection = self._idle.pop()[0] if self._idle else await self._connect()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the connections that are idle, and those in use once they come back. For any thread."""
        self._closed = True
        finish_all(self._idle)

    async def _acquire(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(ACQUIRE_TIMEOUT):
                await self._free.acquire()
        except TimeoutError as error:
            raise psycopg.OperationalError(f"no connection became free within {ACQUIRE_TIMEOUT:.0f} s") from error

    async def _connect(self) -> Connection:
        until, pause = time.monotonic() + CONNECT_TIMEOUT, FIRST_PAUSE
        while True:
            try:
                return await self._open()
            except psycopg.OperationalError:
                if time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _open(self) -> Connection:
        connection = await Connection.connect(**self._parameters, autocommit=True)
        try:
            await self._configure(connection)
        except BaseException:
            connection.pgconn.finish()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        broken = connection.pgconn.status != ConnStatus.OK
        if broken:
            finish_all(self._idle)
        if broken or self._closed or not is_idle(connection):
            connection.pgconn.finish()
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        while self._idle[0][1] < now - MAX_IDLE:
            old, _ = self._idle.popleft()
            old.pgconn.finish()


def is_idle(connection: Connection) -> bool:
    """Return whether nothing is left of what it was used for: a task that was cancelled while its pipeline ended leaves
    it on, and then the server waits for an end of whatever is sent next.
    """
    used = connection.pgconn
    return used.transaction_status == TransactionStatus.IDLE and used.pipeline_status == PipelineStatus.OFF


def finish_all(idle: deque[tuple[Connection, float]]) -> None:
    """Close connections at once, without a loop: theirs may have ended."""
    while idle:
        connection, _ = idle.pop()
        connection.pgconn.finish()
