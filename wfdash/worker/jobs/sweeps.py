"""What the leading worker does beside the runs: one look each second says which jobs have something to do."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wfdash.installation.stopping import waited
from wfdash.pubsub.transport import Outage
from wfdash.telemetry.outages import FailingLoop
from wfdash.worker.jobs import (
    deadlines,
    delivery,
    due_work,
    held_runs,
    hook_feed,
    leftovers,
    metrics,
    old_runs,
    scheduler,
)
from wfdash.worker.jobs.db_thread import DbThread
from wfdash.worker.jobs.due_work import DueWork

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""So often it looks, and sooner when the time of something is known to come sooner."""
FIRST_TIDY = 60.0
LATE = "What is due beside the runs waits: %s: %s: %s. Retrying each second"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Something to do whenever ``is_due``, but not within ``every`` seconds of the last time.

    ``do`` returns after how many seconds it is to be called again, whatever the look finds; 0: at once.
    """

    name: str
    do: Callable[[], float]
    is_due: Callable[[DueWork], bool] = lambda found: True
    every: float = 0.0
    first: float = 0.0
    """Seconds until it is done for the first time."""
    close: Callable[[], None] = lambda: None


def all_jobs() -> list[Job]:
    """Return the jobs of one leader."""
    sender, held = delivery.Senders(), held_runs.HeldRuns()
    return [
        Job(name="deadlines", do=deadlines.sweep, is_due=lambda found: found.has(*deadlines.KINDS)),
        Job(name="scheduler", do=scheduler.sweep, is_due=lambda found: found.has("schedules")),
        Job(name="delivery", do=sender.dispatch, is_due=lambda found: found.has("notices"), close=sender.close),
        Job(
            name="webhooks",
            do=hook_feed.HookFeed().feed,
            is_due=lambda found: found.has("hooks") and found.has_events_after("fed"),
        ),
        Job(
            name="metrics",
            do=metrics.Counting().count,
            is_due=lambda found: found.has_events_after("counted"),
            every=metrics.LOOK_SECONDS,
        ),
        Job(name="held", do=held.release, is_due=lambda found: found.has("held"), every=held_runs.LOOK_SECONDS),
        Job(name="tidy", do=deadlines.tidy, every=deadlines.TIDY_SECONDS),
        Job(name="leftovers", do=leftovers.Leftovers().remove_next, every=leftovers.TIDY_SECONDS, first=FIRST_TIDY),
        Job(name="retention", do=old_runs.RunRemoval().remove_next, every=old_runs.LOOK_SECONDS),
        Job(name="roll-ups", do=metrics.roll_up, every=metrics.ROLLUP_SECONDS),
        Job(name="decision-days", do=metrics.roll_up_decisions, every=metrics.ROLLUP_SECONDS),
        Job(name="tidy-metrics", do=metrics.tidy, every=metrics.TIDY_SECONDS),
    ]


async def sweep_until(stopping: asyncio.Event, thread: DbThread) -> None:
    """Look, and do what is due, until stopped."""
    running, outage = [_JobThread(job, stopping) for job in all_jobs()], Outage("The database", LATE)
    try:
        while not stopping.is_set():
            pause = LOOK_SECONDS
            try:
                found = await thread.repeat(due_work.look)
                for one in running:
                    one.consider(found)
                pause = min(pause, found.seconds_to_next())
                outage.end("look")
            except Exception as error:
                outage.begin("look", error)
            await waited(stopping, pause)
    finally:
        await close_all(running)


class _JobThread:
    """A job, one at a time in a thread of its own."""

    def __init__(self, job: Job, stopping: asyncio.Event) -> None:
        self._job, self._stopping = job, stopping
        self._loop = asyncio.get_running_loop()
        self._not_before = self._loop.time() + job.first
        self._thread: DbThread | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._failing = FailingLoop(log, "Could not do what is due (%s); retrying", job.name)

    def consider(self, found: DueWork) -> None:
        """Begin the job if it is due."""
        if self._loop.time() >= self._not_before and self._job.is_due(found):
            self._begin()

    def _begin(self) -> None:
        # A pause may end after this was closed, without an order to stop: its worker was cancelled.
        if self._task is None and not self._closed and not self._stopping.is_set():
            self._thread = self._thread or DbThread(f"wfdash-{self._job.name}")
            self._task = asyncio.create_task(self._work(self._thread), name=self._job.name)

    async def _work(self, thread: DbThread) -> None:
        pause = 0.0
        try:
            while not pause and not self._stopping.is_set():
                pause = await thread.call(self._job.do)
            self._failing.works()
        except Exception as error:
            self._failing.failed(error)
            pause = math.inf
        finally:
            self._task = None
        self._not_before = self._loop.time() + self._job.every
        if pause < LOOK_SECONDS:
            self._loop.call_later(pause, self._begin)

    async def aclose(self) -> None:
        """End; what the thread does at this moment is waited for."""
        self._closed = True
        self._job.close()
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait({task})
        if self._thread is not None:
            await self._thread.aclose()


async def close_all(running: Iterable[_JobThread]) -> None:
    """End these jobs."""
    await asyncio.gather(*(one.aclose() for one in running))
