"""Queued writes and their recent latency."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from checkpoints.sql.transaction_stats import meter
from checkpoints.sql.writes import Script

QUICK = 0.001
"""Average seconds of a transaction up to which an event loop waits for it without yielding."""


class QueuedScript:
    """A script with its result or error, and the future of it once it waits in a queue."""

    __slots__ = ("error", "future", "loop", "make", "result", "sync", "writer")

    def __init__(self, make: Callable[[], Script[Any]], *, sync: bool = True, writer: str = "") -> None:
        """``sync``: its commit has to survive a power failure. ``writer``: who writes, if not the task: a run."""
        self.make = make
        self.sync = sync
        self.loop = asyncio.get_running_loop()
        # A run commits one state after the other, some engines each in a task of its own.
        self.writer: object = writer or id(asyncio.current_task(self.loop))
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


def fail_all(jobs: list[QueuedScript], error: BaseException) -> None:
    """Set the error of every script that has none of its own: nothing of theirs was stored."""
    for job in jobs:
        job.error = job.error or error


def resolve_in_loops(jobs: list[QueuedScript]) -> None:
    """Resolve scripts in their loops, one call per loop; closed loops are skipped."""
    loops: dict[asyncio.AbstractEventLoop, list[QueuedScript]] = {}
    for job in jobs:
        loops.setdefault(job.loop, []).append(job)
    for loop, theirs in loops.items():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve_all, theirs)


def resolve_all(jobs: list[QueuedScript]) -> None:
    """Resolve scripts of the running loop."""
    for job in jobs:
        job.resolve()
