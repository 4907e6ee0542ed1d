"""SQLite: one thread writes, one reads; whatever arrives while a commit lasts goes into the next transaction.

Whoever writes alone, again and again, on a disk that is quick, writes in its own thread: two changes of thread cost
more than the rows. Writers queue at a gate, see ``checkpoints.gate``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from checkpoints.durability import Durability
from checkpoints.errors import Damaged
from checkpoints.gate import Gate as Gate
from checkpoints.gate import gate as gate
from checkpoints.jobs import Job, Pace, fail_all, hand_over
from checkpoints.scripts import Script, Scripts
from checkpoints.sql import Rows, Statement

T = TypeVar("T")

GROUP = 64
"""Scripts that may share a transaction."""

PATIENCE = 20.0
"""Seconds a thread waits for another process."""

PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-32768",
    "PRAGMA wal_autocheckpoint=4000",
)


class Worker:
    """A thread with one connection that works off a queue."""

    name = "checkpoints"

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._open = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Queue a job; the future tells what came of it."""
        with self._lock:
            if not self._open:
                raise RuntimeError("the storage is being closed: nothing was written")
            self._queue.put(job)
        return job.future

    def close(self) -> None:
        """Finish what is queued and end the thread."""
        with self._lock:
            self._open = False
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while jobs := self._next():
            try:
                connection = connection or connect(self._path)
                self._do(connection, jobs)
            except Exception as error:
                fail_all(jobs, error)
            hand_over(jobs)
            jobs.clear()
        if connection is not None:
            connection.close()

    def _next(self) -> list[Job]:
        jobs: list[Job] = []
        job = self._queue.get()
        with contextlib.suppress(Empty):
            while job is not None:
                jobs.append(job)
                if len(jobs) == GROUP:
                    return jobs
                job = self._queue.get_nowait()
            if jobs:
                self._queue.put(None)
        return jobs

    def _do(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        """Run them all; each job gets its result or its error."""
        raise NotImplementedError


class Reader(Worker):
    """Reads, outside of any transaction: it never waits for a writer."""

    name = "checkpoints-reader"

    def _do(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        for job in jobs:
            run_job(connection, job)


class Writer(Worker):
    """Writes, many scripts per transaction; nobody hears of success before it is on the disk."""

    name = "checkpoints-writer"

    def __init__(self, path: str, turn: Gate = gate) -> None:
        """``turn`` is what this process's writers to the file queue at."""
        self._turn = turn
        self._synced = True
        self.pace = Pace()
        super().__init__(path)

    def _do(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        with self._turn:
            began = time.perf_counter()
            self._commit(connection, jobs)
            self.pace.learn(jobs, time.perf_counter() - began)

    def _commit(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        try:
            self._synced = set_level(connection, any(job.sync for job in jobs), self._synced)
            if self._together(connection, jobs):
                return
        except Exception as error:
            roll_back(connection)
            fail_all(jobs, error)
            return
        for job in jobs:
            self._alone(connection, job)

    def _together(self, connection: sqlite3.Connection, jobs: list[Job]) -> bool:
        """Run all in one transaction; False (and nothing done) if one failed after it had written."""
        connection.execute("BEGIN IMMEDIATE")
        for job in jobs:
            before = connection.total_changes
            run_job(connection, job)
            # SQLite may end a transaction itself (disk full): what follows must not run outside of one.
            if job.error is not None and (connection.total_changes != before or not connection.in_transaction):
                roll_back(connection)
                return False
        connection.execute("COMMIT")
        return True

    def _alone(self, connection: sqlite3.Connection, job: Job) -> None:
        job.error = None
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            job.error = error
            return
        finish(connection, job)


class Express:
    """Writes in the thread of whoever awaits it; never waits for anybody."""

    def __init__(self, path: str, turn: Gate, pace: Pace) -> None:
        self._path = path
        self._turn = turn
        self._pace = pace
        self._connection: sqlite3.Connection | None = None
        self._synced = True
        self._open = True

    def write(self, job: Job) -> bool:
        """Run the job if that would be quick and nobody writes now. False: nothing done, let the writer do it."""
        if not self._pace.suits(job) or not self._turn.try_acquire():
            return False
        began = time.perf_counter()
        try:
            return self._open and self._run(job)
        finally:
            self._pace.learn([job], time.perf_counter() - began)
            self._turn.release()

    def _run(self, job: Job) -> bool:
        try:
            self._connection = self._connection or connect(self._path, patience=0)
            self._synced = set_level(self._connection, job.sync, self._synced)
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            return False
        finish(self._connection, job)
        return True

    def close(self) -> None:
        """Write nothing any more."""
        with self._turn:
            self._open = False
            if self._connection is not None:
                self._connection.close()


class SqliteDatabase:
    """A writer thread and a reader thread."""

    def __init__(self, path: str, scripts: Scripts, turn: Gate, *, durability: Durability = Durability.FULL) -> None:
        """``turn`` is what this process's writers to the file queue at."""
        self.scripts = scripts
        self._full = durability is Durability.FULL
        self._writer = Writer(path, turn)
        self._express = Express(path, turn, self._writer.pace)
        self._reader = Reader(path)

    async def write(self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False) -> T:
        """Run a script in a transaction, perhaps with others: there is one writer for all."""
        job = Job(make, sync=sync or self._full)
        if not self._express.write(job):
            return await self._writer.submit(job)  # type: ignore[no-any-return]
        job.settle()
        # Whoever writes in a loop must not keep the event loop from everybody else.
        await asyncio.sleep(0)
        return await job.future  # type: ignore[no-any-return]

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._reader.submit(Job(make))  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End both threads once their queues are empty."""
        self.close()

    def close(self) -> None:
        """End both threads once their queues are empty."""
        self._writer.close()
        self._express.close()
        self._reader.close()


def connect(path: str, *, patience: float = PATIENCE) -> sqlite3.Connection:
    """Return a connection that leaves transactions to its caller.

    It waits ``patience`` seconds for other processes. Threads may use it in turn.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=patience, cached_statements=512, check_same_thread=False
    )
    for pragma in PRAGMAS:
        connection.execute(pragma).close()
    return connection


def set_level(connection: sqlite3.Connection, synced: bool, before: bool) -> bool:
    """Choose what the next transactions survive. A synced one makes all before it as durable: one log."""
    if synced != before:
        connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}").close()
    return synced


def run_job(connection: sqlite3.Connection, job: Job) -> None:
    """Run a job's script to its end and keep its result or error."""
    try:
        job.result = run_script(connection, job.make())
    except Exception as error:
        job.error = error


def run_script(connection: sqlite3.Connection, script: Script[T]) -> T:
    """Run a script's statements and return what it returns."""
    execute = connection.execute
    batch = next(script)
    try:
        while True:
            try:
                rows = [execute(sql, params).fetchall() for sql, params in batch]
            except sqlite3.OperationalError as error:
                rows = read_rotten(connection, batch, error)
            batch = script.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def read_rotten(connection: sqlite3.Connection, batch: Sequence[Statement], error: Exception) -> list[Rows]:
    """Read again where text is no UTF-8 any more: what cannot be read becomes U+FFFD, which no digest forgives.

    Only checkpoints have one: of anything else, ``Damaged``. Any other error is raised as it is.
    """
    if "Could not decode to UTF-8" not in str(error):
        raise error
    if not all(sql.startswith("SELECT ") and " FROM checkpoints_checkpoint " in sql for sql, _ in batch):
        raise Damaged("a stored text is no text any more: restore the database from a backup") from error
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        return [connection.execute(sql, params).fetchall() for sql, params in batch]
    finally:
        connection.text_factory = str


def finish(connection: sqlite3.Connection, job: Job) -> None:
    """Run a job in the transaction that was begun for it, and commit it; a failure is the job's alone."""
    run_job(connection, job)
    if job.error is None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            job.error = error
    roll_back(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    """End a failed transaction, if SQLite has not done so itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
