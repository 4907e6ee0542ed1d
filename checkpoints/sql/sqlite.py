"""SQLite: a writer thread and a reader thread; scripts that arrive during a commit share the next transaction.

A run, or a task, that is the only writer on a fast disk writes inline, in the thread of its event loop: two thread
switches cost more than the rows. All writers hold the fair lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, starmap
from operator import attrgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from checkpoints.errors import Damaged, StorageFailed
from checkpoints.sql.durability import Durability, meter
from checkpoints.sql.reads import Script
from checkpoints.sql.statements import Rows, Statement
from checkpoints.sql.writes import Scripts

# SQLite for callers without an event loop: each script runs in the caller's thread, on a connection of its own.

T = TypeVar("T")

MAX_IDLE = 8
"""Connections that are kept while no one uses them."""


class BlockingSqlite:
    """Runs scripts of any thread; writers take turns, readers wait for no one."""

    def __init__(self, path: str, lock: FairLock, *, synced: bool = True) -> None:
        """``lock``: the write lock of this process for the file. ``synced``: every commit waits for the disk."""
        self._path = path
        self._write_lock = lock
        self._synced = synced
        self._idle: deque[sqlite3.Connection] = deque()
        # A program that ends, or drops its storage, leaves no connection open and gets no warning.
        self._end = weakref.finalize(self, close_all, self._idle)

    def write(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script run in a transaction of its own."""
        with self._connection() as connection, self._write_lock:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = run_script(connection, make())
                connection.execute("COMMIT")
                return result
            finally:
                roll_back(connection)

    def read(self, make: Callable[[], Script[T]]) -> T:
        """Return the result of a script that only reads."""
        with self._connection() as connection:
            return run_script(connection, make())

    def close(self) -> None:
        """Close the connections that no one uses; later calls open others."""
        close_all(self._idle)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self._path)
            set_synchronous(connection, self._synced, True)
        used: sqlite3.Connection | None = connection
        try:
            yield connection
        except sqlite3.Error as error:
            used = usable(connection, error)
            raise
        finally:
            if used is not None and len(self._idle) < MAX_IDLE:
                self._idle.append(used)
            else:
                connection.close()


def close_all(idle: deque[sqlite3.Connection]) -> None:
    """Close connections."""
    while idle:
        with contextlib.suppress(IndexError):
            idle.pop().close()


class FairLock:
    """A reentrant lock that is granted in the order of requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Acquire the lock, after every thread that waits already."""
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

    def try_acquire(self) -> bool:
        """Acquire the lock and return True if it is free (not even held by this thread); never waits."""
        with self._lock:
            if self._owner is not None:
                return False
            self._owner, self._depth = threading.get_ident(), 1
            return True

    def release(self) -> None:
        """Release the lock; the thread that has waited longest gets it."""
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


write_lock = FairLock()
"""The lock of this process's writes to its SQLite database."""


# SQLite for callers on an event loop: a thread that writes and a thread that reads.

MAX_GROUP = 64
"""Scripts of a transaction which no others join."""

BUSY_TIMEOUT = 20.0
"""Seconds a thread waits for another process's write lock."""

BUSY_PAUSE = 0.01
"""Seconds until what SQLite does not wait for itself is tried again."""

PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-32768",
    "PRAGMA wal_autocheckpoint=4000",
)


class SqliteThread:
    """A thread with one connection that runs queued scripts.

    What tasks of an event loop submit in one of its iterations is handed in together: runs that one commit has woken
    commit their next step in one transaction again, and no thread competes with the loop for the interpreter.
    """

    name = "checkpoints"

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue: SimpleQueue[list[QueuedScript]] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[QueuedScript]] = {}
        self._open = True
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()

    def submit(self, job: QueuedScript) -> asyncio.Future[Any]:
        """Queue a script and return the future of its result."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if not self._open:
                raise RuntimeError("the storage is being closed: nothing was written")
            job.future = loop.create_future()
            if not (gathered := self._gathered.setdefault(loop, [])):
                loop.call_soon(self._hand_in, loop)
            gathered.append(job)
        return job.future

    def _hand_in(self, *loops: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            for loop in loops:
                jobs = self._gathered.pop(loop, [])
                for at in range(0, len(jobs), MAX_GROUP):
                    self._queue.put(jobs[at : at + MAX_GROUP])

    def close(self) -> None:
        """Run what is queued and end the thread."""
        with self._lock:
            self._open = False
            self._hand_in(*self._gathered)
        self._queue.put([])
        self._thread.join()

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while jobs := self._next():
            try:
                connection = connection or self._connect()
                self._run_all(connection, jobs)
                for job in jobs:
                    if job.error is not None and connection is not None:
                        connection = usable(connection, job.error)
            except Exception as error:
                fail_all(jobs, error)
            resolve_in_loops(jobs)
            jobs.clear()
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path)

    def _next(self) -> list[QueuedScript]:
        jobs = self._queue.get()
        with contextlib.suppress(Empty):
            while jobs and len(jobs) < MAX_GROUP:
                jobs += (more := self._queue.get_nowait())
                if not more:
                    self._queue.put(more)
                    break
        return jobs

    def _run_all(self, connection: sqlite3.Connection, jobs: list[QueuedScript]) -> None:
        """Run all scripts and keep each one's result or error."""
        raise NotImplementedError


class SqliteReader(SqliteThread):
    """The reader thread: outside of transactions, it never waits for a writer."""

    name = "checkpoints-reader"

    def _run_all(self, connection: sqlite3.Connection, jobs: list[QueuedScript]) -> None:
        for job in jobs:
            run_job(connection, job)


class SqliteWriter(SqliteThread):
    """The writer thread: many scripts per transaction, resolved once the commit is on the disk."""

    name = "checkpoints-writer"

    def __init__(self, path: str, lock: FairLock = write_lock) -> None:
        """``lock``: the write lock of this process for the file."""
        self._write_lock = lock
        self._synced = True
        self.latency = WriteLatency()
        super().__init__(path)

    def _run_all(self, connection: sqlite3.Connection, jobs: list[QueuedScript]) -> None:
        with self._write_lock:
            began = time.perf_counter()
            self._commit(connection, jobs)
            self.latency.record(jobs, time.perf_counter() - began)

    def _commit(self, connection: sqlite3.Connection, jobs: list[QueuedScript]) -> None:
        try:
            self._synced = set_synchronous(connection, any(map(attrgetter("sync"), jobs)), self._synced)
            if self._commit_group(connection, jobs):
                return
        except Exception as error:
            roll_back(connection)
            fail_all(jobs, error)
            return
        for job in jobs:
            self._commit_one(connection, job)

    def _commit_group(self, connection: sqlite3.Connection, jobs: list[QueuedScript]) -> bool:
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

    def _commit_one(self, connection: sqlite3.Connection, job: QueuedScript) -> None:
        job.error = None
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            job.error = error
            return
        run_and_commit(connection, job)


class InlineWriter:
    """Writes in the caller's thread, without waiting for any lock."""

    def __init__(self, path: str, lock: FairLock, latency: WriteLatency) -> None:
        self._path = path
        self._write_lock = lock
        self._latency = latency
        self._connection: sqlite3.Connection | None = None
        self._synced = True
        self._open = True

    def write(self, job: QueuedScript) -> bool:
        """Run the script if that is quick and the lock is free; False (and nothing done) leaves it to the writer."""
        if not self._latency.allows_inline(job) or not self._write_lock.try_acquire():
            return False
        began = time.perf_counter()
        try:
            return self._open and self._run(job)
        finally:
            self._latency.record([job], time.perf_counter() - began)
            self._write_lock.release()

    def _run(self, job: QueuedScript) -> bool:
        try:
            self._connection = self._connection or connect(self._path, busy_timeout=0)
            self._synced = set_synchronous(self._connection, job.sync, self._synced)
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            return False
        run_and_commit(self._connection, job)
        if job.error is not None:
            self._connection = usable(self._connection, job.error)
        return True

    def close(self) -> None:
        """Close the connection; later writes return False."""
        with self._write_lock:
            self._open = False
            if self._connection is not None:
                self._connection.close()


class SqliteDatabase:
    """A writer thread and a reader thread."""

    def __init__(
        self, path: str, scripts: Scripts, lock: FairLock, *, durability: Durability = Durability.FULL
    ) -> None:
        """``lock``: the write lock of this process for the file."""
        self.scripts = scripts
        self._full = durability is Durability.FULL
        self._writer = SqliteWriter(path, lock)
        self._inline, self._turns = InlineWriter(path, lock, self._writer.latency), LoopTurns()
        self._reader = SqliteReader(path)

    async def write(
        self, make: Callable[[], Script[T]], *, sync: bool = True, shared: bool = False, writer: str = ""
    ) -> T:
        """Return the result of a script run in a transaction, maybe with others: there is one writer for all."""
        job = QueuedScript(make, sync=sync or self._full, writer=writer)
        if not self._inline.write(job):
            return await self._writer.submit(job)  # type: ignore[no-any-return]
        if self._turns.is_over():
            await asyncio.sleep(0)
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[no-any-return]

    async def read(self, make: Callable[[], Script[T]]) -> T:
        """Run a script that only reads."""
        return await self._reader.submit(QueuedScript(make))  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End both threads once their queues are empty."""
        self.close()

    async def aclose_loop(self) -> None:
        """Do nothing: there is nothing per event loop."""

    def close(self) -> None:
        """End both threads once their queues are empty."""
        self._writer.close()
        self._inline.close()
        self._reader.close()


class ReadOnlyReader(SqliteReader):
    """A reader thread that changes nothing of the file, nor beside it."""

    def _connect(self) -> sqlite3.Connection:
        return connect_read_only(self._path)


class ReadOnlyDatabase(SqliteDatabase):
    """A file that may not be written: a reader thread alone."""

    def __init__(self, path: str, scripts: Scripts) -> None:
        self.scripts = scripts
        self._path = path
        self._reader = ReadOnlyReader(path)

    async def write(self, make: Callable[[], Script[T]], **_: Any) -> T:
        """Raise ``StorageFailed``."""
        words = "the file is read-only, nothing was written: make it writable, or use a copy of it"
        raise StorageFailed(f"{self._path}: {words}", place=self._path)

    def close(self) -> None:
        """End the thread."""
        self._reader.close()


def connect_read_only(path: str) -> sqlite3.Connection:
    """Return a connection that writes neither the file nor its log.

    A file without a log beside it counts as one that no one changes: SQLite would need to create the log's index.
    """
    log = Path(f"{path}-wal")
    unchanging = "" if log.exists() and log.stat().st_size else "&immutable=1"
    return sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?mode=ro{unchanging}",
        uri=True,
        isolation_level=None,
        timeout=BUSY_TIMEOUT,
        cached_statements=512,
        check_same_thread=False,
    )


def connect(path: str, *, busy_timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Return a connection that leaves transactions to its caller.

    It waits ``busy_timeout`` seconds for other processes. Threads may use it in turn.
    """
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=busy_timeout, cached_statements=512, check_same_thread=False
    )
    try:
        _use_write_ahead_log(connection, time.monotonic() + busy_timeout)
        for pragma in PRAGMAS:
            connection.execute(pragma).close()
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection, until: float) -> None:
    """Switch a new file to its log. SQLite does not wait here: it says at once that another process does the same."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until:
                raise
            time.sleep(BUSY_PAUSE)


def set_synchronous(connection: sqlite3.Connection, synced: bool, before: bool) -> bool:
    """Set ``PRAGMA synchronous`` for the next transactions. A synced commit makes earlier ones durable too: one log."""
    if synced != before:
        connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'NORMAL'}").close()
    return synced


def run_job(connection: sqlite3.Connection, job: QueuedScript) -> None:
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
                rows = list(map(sqlite3.Cursor.fetchall, starmap(execute, batch)))
            except sqlite3.OperationalError as error:
                rows = read_undecodable(connection, batch, error)
            batch = script.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def read_undecodable(connection: sqlite3.Connection, batch: Sequence[Statement], error: Exception) -> list[Rows]:
    """Return the rows of a batch whose text is no longer UTF-8: bad bytes become U+FFFD, which fails the digest.

    Only checkpoints have a digest: for other tables ``Damaged``. Any other error is raised unchanged.
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


def usable(connection: sqlite3.Connection, error: BaseException) -> sqlite3.Connection | None:
    """Return the connection that had this error; closed and None if it was opened while its file could not be
    written: it would stay so.
    """
    if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY:
        return connection
    connection.close()
    return None


def run_and_commit(connection: sqlite3.Connection, job: QueuedScript) -> None:
    """Run a job in the transaction that was begun for it, and commit it; a failure is the job's alone."""
    try:
        job.result = run_script(connection, job.make())
        connection.execute("COMMIT")
    except Exception as error:
        job.error = error
        roll_back(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    """End a failed transaction, if SQLite has not done so itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


# Queued writes and their recent latency.

QUICK = 0.001
"""Average seconds of a transaction up to which an event loop waits for it without yielding."""

LONGEST_TURN = 0.003
"""Seconds for which tasks may write inline, one script after the other, before the loop's other tasks run."""


class QueuedScript:
    """A script with its result or error, and the future of it once it waits in a queue."""

    __slots__ = ("error", "future", "make", "result", "sync", "writer")

    def __init__(self, make: Callable[[], Script[Any]], *, sync: bool = True, writer: str = "") -> None:
        """``sync``: its commit has to survive a power failure. ``writer``: who writes, if not the task: a run."""
        self.make = make
        self.sync = sync
        # A run commits one state after the other, some engines each in a task of its own.
        self.writer: object = writer or id(asyncio.current_task())
        self.future: asyncio.Future[Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def resolve(self) -> None:
        """Resolve the future with the result or error; call it in the future's loop."""
        if self.future is None or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class WriteLatency:
    """Average latency of recent transactions, and which run or task wrote last. Changed only under the write lock."""

    def __init__(self) -> None:
        self._seconds = 4 * QUICK
        self._writer: object = None

    def record(self, jobs: list[QueuedScript], seconds: float) -> None:
        """Record a transaction's scripts and duration."""
        meter.record(len(jobs), seconds)
        self._writer = jobs[0].writer if len(jobs) == 1 else None
        self._seconds += (min(seconds, 8 * QUICK) - self._seconds) / 4

    def allows_inline(self, job: QueuedScript) -> bool:
        """Return whether to write inline: writes are quick, and the same writer alone wrote last."""
        return self._writer == job.writer and self._seconds <= QUICK


class LoopTurns:
    """How long tasks have written inline without a pause: they must not starve the event loop's other tasks."""

    def __init__(self) -> None:
        self._paused = (0, 0.0)

    def is_over(self) -> bool:
        """Return whether to pause now, and begin the next turn if so."""
        loop, now = id(asyncio.get_running_loop()), time.perf_counter()
        if self._paused[0] == loop and now - self._paused[1] < LONGEST_TURN:
            return False
        self._paused = loop, now
        return True


def fail_all(jobs: list[QueuedScript], error: BaseException) -> None:
    """Set the error of every script that has none of its own: nothing of theirs was stored."""
    for job in jobs:
        job.error = job.error or error


def resolve_in_loops(jobs: list[QueuedScript]) -> None:
    """Resolve scripts in their loops, neighbours of one loop by one call; closed loops are skipped."""
    for loop, theirs in groupby(jobs, lambda job: job.future and job.future.get_loop()):
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(resolve_all, [*theirs])


def resolve_all(jobs: list[QueuedScript]) -> None:
    """Resolve scripts of the running loop."""
    for job in jobs:
        job.resolve()
