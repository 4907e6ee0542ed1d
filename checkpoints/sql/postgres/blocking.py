"""PostgreSQL for callers without an event loop: each script runs in the caller's thread, on a connection of its own."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.types.string import TextLoader

from checkpoints.sql.postgres.executor import ATTEMPTS, MAX_CONNECTIONS
from checkpoints.sql.postgres.pool import ACQUIRE_TIMEOUT, CONNECT_TIMEOUT, FIRST_PAUSE, LONGEST_PAUSE, MAX_IDLE
from checkpoints.sql.postgres.session import set_up_session, set_up_transaction
from checkpoints.sql.postgres.transactions import ASYNC_COMMIT
from checkpoints.sql.reads import Script

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
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._connection() as connection:
                    return run_script(connection, make(), flush=self._flush)
            except (errors.DeadlockDetected, errors.SerializationFailure):
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

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


def run_script(connection: BlockingConnection, script: Script[T], *, flush: bool) -> T:
    """Return the result of a script, run in one transaction: each of its batches in one round trip."""
    try:
        with connection.pipeline() as pipeline:
            connection.execute("BEGIN")
            if connection.prepare_threshold is None:
                connection.execute(set_up_transaction(connection.info.server_version))
            if not flush:
                connection.execute(ASYNC_COMMIT)
            batch = next(script)
            try:
                while True:
                    cursors = [connection.execute(sql, params) for sql, params in batch]
                    pipeline.sync()
                    batch = script.send([cursor.fetchall() if cursor.description else [] for cursor in cursors])
            except StopIteration as end:
                result: T = end.value
            connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            connection.rollback()
        raise
    return result


def finish_idle(idle: deque[tuple[BlockingConnection, float]]) -> None:
    """Close connections at once."""
    while idle:
        with contextlib.suppress(IndexError):
            idle.pop()[0].close()
