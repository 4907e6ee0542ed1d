"""Scripts that somebody awaits, and how long they have taken of late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from checkpoints.meter import meter
from checkpoints.scripts import Script

QUICK = 0.001
"""Seconds a transaction may take on average for an event loop to wait for it without letting others run."""


class Job:
    """A script that somebody awaits."""

    __slots__ = ("error", "future", "loop", "make", "result", "sync", "task")

    def __init__(self, make: Callable[[], Script[Any]], *, sync: bool = True) -> None:
        """``sync`` says that its commit has to survive a power failure."""
        self.make = make
        self.sync = sync
        self.loop = asyncio.get_running_loop()
        self.task = id(asyncio.current_task(self.loop))
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


class Pace:
    """How long transactions take, and whether one task alone writes them. Changed by whoever holds the gate."""

    def __init__(self) -> None:
        self._seconds = 4 * QUICK
        self._task: int | None = None

    def learn(self, jobs: list[Job], seconds: float) -> None:
        """Take note of a transaction."""
        meter.took(len(jobs), seconds)
        self._task = jobs[0].task if len(jobs) == 1 else None
        self._seconds += (min(seconds, 8 * QUICK) - self._seconds) / 4

    def suits(self, job: Job) -> bool:
        """Say whether a job would be quick and alone: its task wrote last, and nobody else with it."""
        return self._task == job.task and self._seconds <= QUICK


def fail_all(jobs: list[Job], error: BaseException) -> None:
    """Give the error to every job that has none of its own: nothing of theirs was kept."""
    for job in jobs:
        job.error = job.error or error


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
