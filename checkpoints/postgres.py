"""PostgreSQL: an own pool of connections per event loop, each transaction in one pipeline.

PostgreSQL groups the flushes of concurrent connections itself. Nothing here notifies: NOTIFY holds a
database-wide lock through the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from psycopg import errors
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool

from checkpoints.durability import Durability
from checkpoints.lanes import Connection, Lanes, run_scripts
from checkpoints.scripts import Script
from checkpoints.sql import waiting

T = TypeVar("T")
POOL = 12
"""Connections per event loop at most; more are not faster."""
RECONNECT = 3.0
"""Seconds a pool tries on its own to reach a server that is away; then the next who asks makes it try again."""
STANDSTILL = 10.0
"""Seconds a transaction may wait for its client: what a frozen process has locked is free then, as is its claim."""
LONGEST = 30.0
"""Seconds a transaction may last in all, from PostgreSQL 17 on: it may also freeze in the middle of a pipeline."""
VANISHED = {"tcp_keepalives_idle": 5, "tcp_keepalives_interval": 5, "tcp_keepalives_count": 2}
"""Seconds and times after which the server gives up a client whose machine has vanished."""
ATTEMPTS = 3
"""How often a script runs when PostgreSQL chose it to break a deadlock."""


class Pools:
    """One pool per event loop: connections cannot move between loops."""

    def __init__(self, parameters: dict[str, Any], *, durability: Durability = Durability.FULL) -> None:
        self._parameters = parameters
        self._full = durability is Durability.FULL
        self._pools: dict[asyncio.AbstractEventLoop, AsyncConnectionPool[Connection]] = {}
        self._lanes: dict[asyncio.AbstractEventLoop, Lanes] = {}

    async def run(self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False) -> T:
        """Run a script in one transaction; once more if a deadlock ended it. ``shared``: perhaps with others."""
        waits = sync or self._full
        pool = await self._pool()
        if shared:
            return await self._lanes[asyncio.get_running_loop()].run(make, waits)
        return await self._alone(pool, make, waits)

    async def _alone(self, pool: AsyncConnectionPool[Connection], make: Callable[[], Script[T]], waits: bool) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with pool.connection() as connection:
                    (result,) = await run_scripts(connection, [make()], waits=waits)
                    return result  # type: ignore[no-any-return]
            except (errors.DeadlockDetected, errors.SerializationFailure):
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Close the pool of this loop, and those of loops that still run elsewhere."""
        here = asyncio.get_running_loop()
        for loop in list(self._pools):
            closing = close(self._lanes.pop(loop), self._pools.pop(loop))
            if loop is here:
                await closing
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(closing, loop))
            else:
                closing.close()

    async def _pool(self) -> AsyncConnectionPool[Connection]:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = AsyncConnectionPool(
                kwargs={**self._parameters, "autocommit": True},
                min_size=1,
                max_size=POOL,
                open=False,
                reconnect_timeout=RECONNECT,
                configure=configure,
            )
            pool = self._pools[loop]
            self._lanes[loop] = Lanes(pool, partial(self._alone, pool))
            await pool.open()
        return self._pools[loop]


async def close(lanes: Lanes, pool: AsyncConnectionPool[Connection]) -> None:
    """End one loop's connections once all that was asked is done."""
    await lanes.aclose()
    await pool.close()


async def configure(connection: Connection) -> None:
    """Read JSON as text: this package has its own reader. Wait for the disk, whatever the server's setting is.

    Nobody waits for ever for a transaction whose process is frozen, or whose machine has vanished.
    """
    connection.adapters.register_loader("json", TextLoader)
    await connection.execute(waiting(local=False))
    for name, value in limits(connection.info.server_version).items():
        await connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))


def limits(server_version: int) -> dict[str, int]:
    """Return the server's settings for our connections, times in milliseconds."""
    total = {"transaction_timeout": int(LONGEST * 1000)} if server_version >= 170000 else {}
    return {"idle_in_transaction_session_timeout": int(STANDSTILL * 1000), **total, **VANISHED}
