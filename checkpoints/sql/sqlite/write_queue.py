"""Queued writes and their recent latency."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from checkpoints.sql.reads import Script
from checkpoints.sql.transaction_stats import meter

QUICK = 0.001
"""Average seconds of a transaction up to which an event loop waits for it without yielding."""

LONGEST_TURN = 0.003
"""Seconds for which tasks may write inline, one script after the other, before the loop's other tasks run."""


class QueuedScript:
    """A script with its result or error, and the future of it once it waits in a queue."""

    __slots__ = ("error", "future", "loop", "make", "result", "sync", "writer")

    def __init__(self, make: Callable[[], Script[Any]], *, sync: bool = True, writer: str = "") -> None:
        """``sync``: its commit has to survive a power failure. ``writer``: who writes, if not the task: a run."""
        self.make = make
        self.sync = sync
        # A run commits one state after the other, some engines each in a task of its own.
        self.writer: object = writer or id(asyncio.current_task())
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def queued(self) -> asyncio.Future[Any]:
        """Return the future of its result, which belongs to the running loop."""
        self.loop = asyncio.get_running_loop()
        self.future = self.loop.create_future()
        return self.future

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
    """Resolve scripts in their loops, one call per loop; closed loops are skipped."""
    loops: dict[asyncio.AbstractEventLoop, list[QueuedScript]] = {}
    for job in jobs:
        if job.loop is not None:
            loops.setdefault(job.loop, []).append(job)
    for loop, theirs in loops.items():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve_all, theirs)


def resolve_all(jobs: list[QueuedScript]) -> None:
    """Resolve scripts of the running loop."""
    for job in jobs:
        job.resolve()
