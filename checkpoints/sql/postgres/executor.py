"""PostgreSQL: a connection pool per event loop, each transaction in one pipeline.

PostgreSQL groups the flushes of concurrent connections itself. Nothing here notifies: NOTIFY holds a
database-wide lock through the commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from psycopg import errors
from psycopg.types.string import TextLoader

from checkpoints.sql.durability import Durability
from checkpoints.sql.postgres.group_commit import GroupCommit
from checkpoints.sql.postgres.pool import Pool
from checkpoints.sql.postgres.prepared import UTF8, Connection
from checkpoints.sql.postgres.session import set_up_session
from checkpoints.sql.postgres.transactions import run_script
from checkpoints.sql.reads import Script

T = TypeVar("T")
MAX_CONNECTIONS = 12
"""Connections per event loop at most; more are not faster."""
ATTEMPTS = 3
"""How many times a script is tried when PostgreSQL chose it to break a deadlock."""


@dataclass(frozen=True, slots=True)
class LoopConnections:
    """The connection pool and group commit of one event loop."""

    pool: Pool
    group_commit: GroupCommit

    async def aclose(self) -> None:
        """Close the connections once every pending script has finished."""
        await self.group_commit.aclose()
        self.pool.close()


class Pools:
    """One pool per event loop: connections cannot move between loops. Those of loops that have ended are closed."""

    def __init__(self, parameters: dict[str, Any], *, durability: Durability = Durability.FULL) -> None:
        """``parameters`` are psycopg's."""
        self._parameters = parameters
        self._full = durability is Durability.FULL
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopConnections] = {}
        self._lock = threading.Lock()

    async def run(self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False) -> T:
        """Return the result of a script, run in one transaction, again after a deadlock. ``shared``: maybe with
        others.
        """
        flush = sync or self._full
        connections = self._by_loop.get(asyncio.get_running_loop()) or self._opened()
        if shared:
            return await connections.group_commit.run(make, flush)
        return await self._run_retrying(connections.pool, make, flush)

    async def _run_retrying(self, pool: Pool, make: Callable[[], Script[T]], flush: bool) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with pool.connection() as connection:
                    return await run_script(connection, make(), flush=flush)  # type: ignore[no-any-return]
            except (errors.DeadlockDetected, errors.SerializationFailure):
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def aclose_loop(self) -> None:
        """Close the pool of this loop."""
        connections = self._by_loop.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            await connections.aclose()

    async def aclose(self) -> None:
        """Close the pools of this loop and of all others."""
        here = asyncio.get_running_loop()
        for loop in list(self._by_loop):
            connections = self._by_loop.pop(loop)
            if loop is here:
                await connections.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(connections.aclose(), loop))
            else:
                connections.pool.close()

    def _opened(self) -> LoopConnections:
        """Return this loop's connections, after closing those of loops that have ended."""
        with self._lock:
            for loop in [loop for loop in self._by_loop if loop.is_closed()]:
                self._by_loop.pop(loop).pool.close()
            pool = Pool(self._parameters, MAX_CONNECTIONS, configure)
            connections = LoopConnections(pool, GroupCommit(pool, partial(self._run_retrying, pool)))
            self._by_loop[asyncio.get_running_loop()] = connections
            return connections


async def configure(connection: Connection) -> None:
    """Set up a new connection: JSON is read as text; one through a pooler uses no prepared statements."""
    connection.adapters.register_loader("json", TextLoader)
    if connection.prepare_threshold is None:
        return
    info = connection.info
    cursor = await connection.execute(set_up_session(info.server_version, info.backend_pid))
    if not (await cursor.fetchall())[0][0]:
        connection.prepare_threshold = None
    elif info.encoding == UTF8:
        connection.names = {}
