"""SQLite: one thread writes, one reads; whatever arrives while a commit lasts goes into the next transaction.

SQLite has one writer at a time, and its way of waiting is not fair: threads that compete lose at random. So this
process queues in front of it: ``gate`` is first come, first served, for the writer thread and the ORM alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from checkpoints.durability import Durability
from checkpoints.errors import Damaged
from checkpoints.scripts import Script, Scripts
from checkpoints.sql import Rows, Statement

T = TypeVar("T")

GROUP = 64
"""Scripts that may share a transaction."""

PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA busy_timeout=20000",
    "PRAGMA cache_size=-32768",
)


class Gate:
    """A lock that is fair (first come, first served) and may be entered again by the thread that holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Wait for one's turn."""
        me = threading.get_ident()
        with self._lock:
            if self._owner is None or self._owner == me:
                self._owner, self._depth = me, self._depth + 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()
        self._owner = me

    def release(self) -> None:
        """Leave; the longest waiting is next."""
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            if self._waiting:
                self._owner, self._depth = -1, 1
                self._waiting.popleft().release()
            else:
                self._owner = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


gate = Gate()
"""Held by whoever in this process writes to the SQLite database."""


class Job:
    """A script that somebody awaits."""

    __slots__ = ("error", "future", "loop", "make", "result", "sync")

    def __init__(self, make: Callable[[], Script[Any]], *, sync: bool) -> None:
        """``sync`` says that its commit has to survive a power failure."""
        self.make = make
        self.sync = sync
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Hand the outcome to the one who awaits it; in its loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


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

    def submit(self, make: Callable[[], Script[T]], *, sync: bool = True) -> asyncio.Future[T]:
        """Queue a script; the future tells what came of it."""
        job = Job(make, sync=sync)
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
        super().__init__(path)

    def _do(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        with self._turn:
            try:
                self._set_level(connection, any(job.sync for job in jobs))
                if self._together(connection, jobs):
                    return
            except Exception as error:
                roll_back(connection)
                fail_all(jobs, error)
                return
            for job in jobs:
                self._alone(connection, job)

    def _set_level(self, connection: sqlite3.Connection, synced: bool) -> None:
        """Choose what the next transactions survive. A synced one makes all before it as durable: one log."""
        if synced != self._synced:
            connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}").close()
            self._synced = synced

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
        run_job(connection, job)
        if job.error is None:
            commit(connection, job)
        roll_back(connection)


class SqliteDatabase:
    """A writer thread and a reader thread."""

    def __init__(self, path: str, scripts: Scripts, turn: Gate, *, durability: Durability = Durability.FULL) -> None:
        """``turn`` is what this process's writers to the file queue at."""
        self.scripts = scripts
        self._full = durability is Durability.FULL
        self._writer = Writer(path, turn)
        self._reader = Reader(path)

    async def write(self, make: Callable[[], Script[T]], *, sync: bool = True) -> T:
        """Run a script in a transaction, perhaps with others."""
        return await self._writer.submit(make, sync=sync or self._full)

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._reader.submit(make)

    async def aclose(self) -> None:
        """End both threads once their queues are empty."""
        self.close()

    def close(self) -> None:
        """End both threads once their queues are empty."""
        self._writer.close()
        self._reader.close()


def connect(path: str) -> sqlite3.Connection:
    """Return a connection that leaves transactions to its caller."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=20, cached_statements=512)
    for pragma in PRAGMAS:
        connection.execute(pragma).close()
    return connection


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


def commit(connection: sqlite3.Connection, job: Job) -> None:
    """Commit a job's own transaction; a failure is the job's alone."""
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        job.error = error


def fail_all(jobs: list[Job], error: BaseException) -> None:
    """Give the error to every job that has none of its own: nothing of theirs was kept."""
    for job in jobs:
        job.error = job.error or error


def roll_back(connection: sqlite3.Connection) -> None:
    """End a failed transaction, if SQLite has not done so itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def hand_over(jobs: list[Job]) -> None:
    """Settle jobs in their loops, one call per loop. A loop that has ended no longer waits."""
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        loops.setdefault(job.loop, []).append(job)
    for loop, theirs in loops.items():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle_all, theirs)


def settle_all(jobs: list[Job]) -> None:
    """Settle jobs of the running loop."""
    for job in jobs:
        job.settle()
