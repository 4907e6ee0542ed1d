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

from checkpoints.sql.postgres.pool import Pool
from checkpoints.sql.postgres.transactions import BegunScript, GroupRolledBack, run_scripts
from checkpoints.sql.reads import Script
from checkpoints.sql.transaction_stats import meter

T = TypeVar("T")

MAX_GROUP_TRANSACTIONS = 2
"""Open transactions per event loop."""
MAX_GROUP_SCRIPTS = 32
"""Scripts that share one transaction at most."""


class PendingScript:
    """A script waiting for a transaction, with the future of its result."""

    __slots__ = ("flush", "future", "make", "stored")

    def __init__(self, make: Callable[[], Script[Any]], *, flush: bool) -> None:
        self.make = make
        self.flush = flush
        self.stored = False
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
                await self._together(group)
        await asyncio.gather(*[self._run_one(pending) for pending in group if not pending.stored])

    async def _together(self, group: Sequence[PendingScript]) -> None:
        """Run scripts that share transactions; the futures of those that are stored are resolved."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._pool.connection())
            except psycopg.Error as error:
                raise GroupRolledBack from error
            flush, began = any(pending.flush for pending in group), time.perf_counter()
            begun = begin_all(group)
            try:
                await run_scripts(connection, begun, flush=flush)
            finally:
                for pending, one in zip(group, begun, strict=True):
                    if one.committed:
                        pending.stored = True
                        resolve(pending, one.result)
            meter.record(len(group), time.perf_counter() - began)

    async def _run_one(self, pending: PendingScript) -> None:
        try:
            resolve(pending, await self._alone(pending.make, pending.flush))
        except Exception as error:
            resolve(pending, error=error)


def begin_all(group: Sequence[PendingScript]) -> list[BegunScript]:
    """Begin the scripts of a group. ``GroupRolledBack`` if one of them raises."""
    try:
        return [BegunScript(pending.make()) for pending in group]
    except Exception as error:
        raise GroupRolledBack from error


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
