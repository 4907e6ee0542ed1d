"""PostgreSQL: scripts of several runs in one transaction, where they come faster than transactions end.

A lane is a transaction under way; what arrives while all lanes are busy goes into the next one together. A script
that fails takes nobody with it: before COMMIT is said, each of its company runs again, alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool

from checkpoints.meter import meter
from checkpoints.scripts import Script

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]

LANES = 2
"""Transactions of company at once, per event loop."""
GROUP = 32
"""Scripts that may share a transaction."""
NO_WAIT = "SET LOCAL synchronous_commit TO off"
"""Lets this transaction's commit return before it is on the disk."""
HURRY = "SET LOCAL lock_timeout TO '50ms'"
"""Who shares a transaction must not wait long for somebody else's row: all of them would."""


class Broken(Exception):
    """A transaction was undone before its end was said: nothing of it was kept."""


class Asked:
    """A script that somebody awaits."""

    __slots__ = ("future", "make", "waits")

    def __init__(self, make: Callable[[], Script[Any]], *, waits: bool) -> None:
        self.make = make
        self.waits = waits
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Lanes:
    """The lanes of one event loop."""

    def __init__(
        self, pool: AsyncConnectionPool[Connection], alone: Callable[[Callable[[], Script[Any]], bool], Any]
    ) -> None:
        """``alone(make, waits)`` runs one script in a transaction of its own."""
        self._pool = pool
        self._by_itself = alone
        self._asked: deque[Asked] = deque()
        self._used = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, make: Callable[[], Script[T]], waits: bool) -> T:
        """Run a script in a transaction, perhaps with others. Whoever gives up waiting for others does not stop it."""
        if not self._used and not self._asked:
            return await self._at_once(make, waits)
        asked = Asked(make, waits=waits)
        self._asked.append(asked)
        self._open_lane()
        return await asked.future  # type: ignore[no-any-return]

    async def _alone(self, make: Callable[[], Script[Any]], waits: bool) -> Any:
        began = time.perf_counter()
        result = await self._by_itself(make, waits)
        meter.took(1, time.perf_counter() - began)
        return result

    async def _at_once(self, make: Callable[[], Script[T]], waits: bool) -> T:
        self._used += 1
        try:
            return await self._alone(make, waits)  # type: ignore[no-any-return]
        finally:
            self._used -= 1
            self._open_lane()

    def _open_lane(self) -> None:
        if self._asked and self._used < LANES:
            self._used += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._closed_lane)

    def _closed_lane(self, task: asyncio.Task[None]) -> None:
        self._used -= 1
        self._tasks.discard(task)
        self._open_lane()

    async def aclose(self) -> None:
        """Wait until all that was asked is done."""
        await asyncio.gather(*self._tasks)

    async def _drain(self) -> None:
        while self._asked:
            group = [self._asked.popleft() for _ in range(min(GROUP, len(self._asked)))]
            try:
                await self._serve(group)
            except BaseException as error:
                for asked in group:
                    settle(asked, error=error)
                if not isinstance(error, Exception):
                    raise

    async def _serve(self, group: list[Asked]) -> None:
        if len(group) > 1:
            with contextlib.suppress(Broken):
                for asked, result in zip(group, await self._together(group), strict=True):
                    settle(asked, result)
                return
        await asyncio.gather(*map(self._one, group))

    async def _together(self, group: Sequence[Asked]) -> list[Any]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pool.connection())
            except psycopg.Error as error:
                raise Broken from error
            waits, began = any(asked.waits for asked in group), time.perf_counter()
            results = await run_scripts(connection, [asked.make() for asked in group], waits=waits)
            meter.took(len(group), time.perf_counter() - began)
            return results

    async def _one(self, asked: Asked) -> None:
        try:
            settle(asked, await self._alone(asked.make, asked.waits))
        except Exception as error:
            settle(asked, error=error)


def settle(asked: Asked, result: Any = None, error: BaseException | None = None) -> None:
    """Hand the outcome to whoever still waits for it."""
    if asked.future.done():
        return
    if error is None:
        asked.future.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        asked.future.cancel()
    else:
        asked.future.set_exception(error)


async def run_scripts(connection: Connection, scripts: Sequence[Script[Any]], *, waits: bool = True) -> list[Any]:
    """Run scripts in one transaction and return what each returns.

    ``waits`` says whether the commit waits for the disk. ``Broken`` if company was undone before its commit was said;
    one script alone raises what broke it.
    """
    try:
        async with connection.pipeline() as pipeline:
            try:
                results = await run_batches(connection, pipeline, scripts, waits=waits)
            except Exception as error:
                if len(scripts) == 1:
                    raise
                raise Broken from error
            await connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            await connection.rollback()
        raise
    return results


async def run_batches(
    connection: Connection, pipeline: psycopg.AsyncPipeline, scripts: Sequence[Script[Any]], *, waits: bool
) -> list[Any]:
    """Begin, and run the scripts side by side: the next batch of each in one round trip."""
    await connection.execute("BEGIN")
    if not waits:
        await connection.execute(NO_WAIT)
    if len(scripts) > 1:
        await connection.execute(HURRY)
    results: list[Any] = [None] * len(scripts)
    batches = {place: next(script) for place, script in enumerate(scripts)}
    while batches:
        asked = [
            (place, [await connection.execute(sql, params) for sql, params in batch])
            for place, batch in batches.items()
        ]
        await pipeline.sync()
        for place, cursors in asked:
            rows = [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
            try:
                batches[place] = scripts[place].send(rows)
            except StopIteration as end:
                results[place] = end.value
                del batches[place]
    return results
