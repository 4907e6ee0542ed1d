"""PostgreSQL group commit: scripts of several runs share a transaction when they arrive faster than commits finish.

At most ``MAX_GROUP_TRANSACTIONS`` are open per event loop; scripts that arrive in between wait and share the next one.
A script that fails affects no other: the group is rolled back before COMMIT, and each of its scripts runs again alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from checkpoints.sql.postgres.pool import Connection, Pool
from checkpoints.sql.postgres.session import set_up_transaction
from checkpoints.sql.transaction_stats import meter
from checkpoints.sql.writes import Script

T = TypeVar("T")

MAX_GROUP_TRANSACTIONS = 2
"""Open transactions per event loop."""
MAX_GROUP_SCRIPTS = 32
"""Scripts that share one transaction at most."""
ASYNC_COMMIT = "SET LOCAL synchronous_commit TO off"
"""Statement that lets this transaction's commit return before it is flushed to disk."""
LOCK_TIMEOUT = "SET LOCAL lock_timeout TO '50ms'"
"""Statement that limits lock waits in a shared transaction: one blocked script would block all of them."""


class GroupRolledBack(Exception):
    """A shared transaction was rolled back before COMMIT: nothing of it was stored."""


class PendingScript:
    """A script waiting for a transaction, with the future of its result."""

    __slots__ = ("flush", "future", "make")

    def __init__(self, make: Callable[[], Script[Any]], *, flush: bool) -> None:
        self.make = make
        self.flush = flush
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class GroupCommit:
    """The queue and open transactions of one event loop."""

    def __init__(self, pool: Pool, alone: Callable[[Callable[[], Script[Any]], bool], Any]) -> None:
        """``alone(make, waits)`` runs one script in a transaction of its own."""
        self._pool = pool
        self._run_alone = alone
        self._pending: deque[PendingScript] = deque()
        self._transactions = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, make: Callable[[], Script[T]], flush: bool) -> T:
        """Return the result of a script, run in a transaction others may share; it is not stopped by cancellation."""
        if not self._transactions and not self._pending:
            return await self._at_once(make, flush)
        pending = PendingScript(make, flush=flush)
        self._pending.append(pending)
        self._start_transaction()
        return await pending.future  # type: ignore[no-any-return]

    async def _alone(self, make: Callable[[], Script[Any]], flush: bool) -> Any:
        began = time.perf_counter()
        result = await self._run_alone(make, flush)
        meter.record(1, time.perf_counter() - began)
        return result

    async def _at_once(self, make: Callable[[], Script[T]], flush: bool) -> T:
        self._transactions += 1
        try:
            return await self._alone(make, flush)  # type: ignore[no-any-return]
        finally:
            self._transactions -= 1
            self._start_transaction()

    def _start_transaction(self) -> None:
        if self._pending and self._transactions < MAX_GROUP_TRANSACTIONS:
            self._transactions += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._transaction_ended)

    def _transaction_ended(self, task: asyncio.Task[None]) -> None:
        self._transactions -= 1
        self._tasks.discard(task)
        self._start_transaction()

    async def aclose(self) -> None:
        """Wait until every pending script has finished."""
        await asyncio.gather(*self._tasks)

    async def _drain(self) -> None:
        while self._pending:
            group = [self._pending.popleft() for _ in range(min(MAX_GROUP_SCRIPTS, len(self._pending)))]
            try:
                await self._run_group(group)
            except BaseException as error:
                for pending in group:
                    resolve(pending, error=error)
                if not isinstance(error, Exception):
                    raise

    async def _run_group(self, group: list[PendingScript]) -> None:
        if len(group) > 1:
            with contextlib.suppress(GroupRolledBack):
                for pending, result in zip(group, await self._together(group), strict=True):
                    resolve(pending, result)
                return
        await asyncio.gather(*map(self._run_one, group))

    async def _together(self, group: Sequence[PendingScript]) -> list[Any]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pool.connection())
            except psycopg.Error as error:
                raise GroupRolledBack from error
            flush, began = any(pending.flush for pending in group), time.perf_counter()
            results = await run_scripts(connection, [pending.make() for pending in group], flush=flush)
            meter.record(len(group), time.perf_counter() - began)
            return results

    async def _run_one(self, pending: PendingScript) -> None:
        try:
            resolve(pending, await self._alone(pending.make, pending.flush))
        except Exception as error:
            resolve(pending, error=error)


def resolve(pending: PendingScript, result: Any = None, error: BaseException | None = None) -> None:
    """Resolve the future of a script, unless it was cancelled."""
    if pending.future.done():
        return
    if error is None:
        pending.future.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        pending.future.cancel()
    else:
        pending.future.set_exception(error)


async def run_scripts(connection: Connection, scripts: Sequence[Script[Any]], *, flush: bool = True) -> list[Any]:
    """Run scripts in one transaction and return what each returns.

    ``flush``: the commit waits for the disk. ``GroupRolledBack`` if several scripts were rolled back before COMMIT; a
    single script raises its own error.
    """
    try:
        async with connection.pipeline() as pipeline:
            try:
                results = await run_batches(connection, pipeline, scripts, flush=flush)
            except Exception as error:
                if len(scripts) == 1:
                    raise
                raise GroupRolledBack from error
            await connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            await connection.rollback()
        raise
    return results


async def run_batches(
    connection: Connection, pipeline: psycopg.AsyncPipeline, scripts: Sequence[Script[Any]], *, flush: bool
) -> list[Any]:
    """Begin, and run the scripts side by side: the next batch of each in one round trip."""
    await connection.execute("BEGIN")
    if connection.prepare_threshold is None:
        await connection.execute(set_up_transaction(connection.info.server_version))
    if not flush:
        await connection.execute(ASYNC_COMMIT)
    if len(scripts) > 1:
        await connection.execute(LOCK_TIMEOUT)
    results: list[Any] = [None] * len(scripts)
    batches = {place: next(script) for place, script in enumerate(scripts)}
    while batches:
        pending = [
            (place, [await connection.execute(sql, params) for sql, params in batch])
            for place, batch in batches.items()
        ]
        await pipeline.sync()
        for place, cursors in pending:
            rows = [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
            try:
                batches[place] = scripts[place].send(rows)
            except StopIteration as end:
                results[place] = end.value
                del batches[place]
    return results
