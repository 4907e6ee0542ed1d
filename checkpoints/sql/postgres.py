"""PostgreSQL: a connection pool per event loop, each transaction in one pipeline.

PostgreSQL groups the flushes of concurrent connections itself. Nothing here notifies: NOTIFY holds a
database-wide lock through the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.generators import send
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus
from psycopg.types.string import TextLoader

from checkpoints.sql.durability import Durability, meter
from checkpoints.sql.postgres_scripts import (
    BegunScript,
    Connection,
    GroupRolledBack,
    beginning,
    run_script,
    run_scripts,
    set_up_session,
)
from checkpoints.sql.reads import Script

# PostgreSQL for callers without an event loop: each script runs in the caller's thread, on a connection of its own.

T = TypeVar("T")
BlockingConnection = psycopg.Connection[tuple[Any, ...]]


class BlockingPostgres:
    """At most ``MAX_CONNECTIONS`` connections, for any thread; the one used last is used first."""

    def __init__(self, parameters: dict[str, Any], *, flush: bool) -> None:
        """``parameters`` are psycopg's. ``flush``: every commit waits for the disk."""
        self._parameters = parameters
        self._flush = flush
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._idle: deque[tuple[BlockingConnection, float]] = deque()
        self._end = weakref.finalize(self, finish_idle, self._idle)

    def write(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script, run in one transaction, again after a deadlock."""
        failed = 0
        while True:
            try:
                with self._connection() as connection:
                    return run_blocking(connection, make(), flush=self._flush)
            except (errors.DeadlockDetected, errors.SerializationFailure):
                failed += 1
                if failed == ATTEMPTS:
                    raise

    read = write

    def close(self) -> None:
        """Close the connections that no one uses; later calls open others."""
        finish_idle(self._idle)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[BlockingConnection]:
        if not self._free.acquire(timeout=ACQUIRE_TIMEOUT):
            raise psycopg.OperationalError(f"no connection became free within {ACQUIRE_TIMEOUT:.0f} s")
        try:
            try:
                connection, _ = self._idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _connect(self) -> BlockingConnection:
        until, pause = time.monotonic() + CONNECT_TIMEOUT, FIRST_PAUSE
        while True:
            try:
                return self._open()
            except psycopg.OperationalError:
                if time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _open(self) -> BlockingConnection:
        connection: BlockingConnection = psycopg.Connection.connect(**self._parameters, autocommit=True)
        try:
            connection.adapters.register_loader("json", TextLoader)
            info = connection.info
            if connection.prepare_threshold is not None:
                cursor = connection.execute(set_up_session(info.server_version, info.backend_pid))
                if not cursor.fetchall()[0][0]:
                    connection.prepare_threshold = None
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: BlockingConnection) -> None:
        if connection.pgconn.status != ConnStatus.OK:
            finish_idle(self._idle)
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.close()
            return
        now = time.monotonic()
        self._idle.append((connection, now))
        with contextlib.suppress(IndexError):
            while self._idle[0][1] < now - MAX_IDLE:
                self._idle.popleft()[0].close()


def run_blocking(connection: BlockingConnection, script: Script[T], *, flush: bool) -> T:
    """Return the result of a script: its whole batch alone, or all in one transaction, each batch in one round trip."""
    begun = BegunScript(script)
    batch = begun.batch
    if begun.is_whole and flush and connection.prepare_threshold is not None:
        ((sql, params),) = batch or ()
        batch = begun.resume([connection.execute(sql, params, prepare=True).fetchall()])
    if batch is None:
        return begun.result  # type: ignore[no-any-return]
    try:
        with connection.pipeline() as pipeline:
            for sql in beginning(connection, flush=flush):
                connection.execute(sql)
            while batch is not None:
                cursors = [connection.execute(sql, params) for sql, params in batch]
                # The pipeline's end sends once and then waits for replies, whatever of a long value is still unsent.
                connection.wait(send(connection.pgconn))
                pipeline.sync()
                batch = begun.resume([cursor.fetchall() if cursor.description else [] for cursor in cursors])
            connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            connection.rollback()
        raise
    return begun.result  # type: ignore[no-any-return]


def finish_idle(idle: deque[tuple[BlockingConnection, float]]) -> None:
    """Close connections at once."""
    while idle:
        with contextlib.suppress(IndexError):
            idle.pop()[0].close()


# PostgreSQL for callers on an event loop: a pool for each of their loops.

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
        failed = 0
        while True:
            try:
                async with pool.connection() as connection:
                    return await run_script(connection, make(), flush=flush)  # type: ignore[no-any-return]
            except (errors.DeadlockDetected, errors.SerializationFailure):
                failed += 1
                if failed == ATTEMPTS:
                    raise

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
    if (await cursor.fetchall())[0][0]:
        connection.names = {}
    else:
        connection.prepare_threshold = None


# PostgreSQL group commit: scripts of several runs share a transaction when they arrive faster than commits finish.

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
            self._transactions += 1
            try:
                return await self._alone(make, flush)  # type: ignore[no-any-return]
            finally:
                self._transactions -= 1
                self._start_transaction()
        pending = PendingScript(make, flush=flush)
        self._pending.append(pending)
        self._start_transaction()
        return await pending.future  # type: ignore[no-any-return]

    async def _alone(self, make: Callable[[], Script[Any]], flush: bool) -> Any:
        began = time.perf_counter()
        result = await self._run_alone(make, flush)
        meter.record(1, time.perf_counter() - began)
        return result

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
                begun = [BegunScript(pending.make()) for pending in group]
            except Exception as error:
                raise GroupRolledBack from error
            flush, began = any(pending.flush for pending in group), time.perf_counter()
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


# PostgreSQL: a pool of connections for one event loop, without tasks of its own.

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
