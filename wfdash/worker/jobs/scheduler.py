"""The scheduler: starts the runs of schedules when their time has come.

Any number of workers may run it: each time starts one run. Without schedules it costs one look into an index a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from checkpoints.database.clock import database_now
from wfdash.actions.schedules import trigger
from wfdash.worker.jobs.db_thread import DbThread

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""So often it looks, and sooner when a time is known to come sooner."""


async def fire_until(stopping: asyncio.Event) -> None:
    """Start what is due until stopped."""
    thread = DbThread("wfdash-scheduler")
    try:
        while not stopping.is_set():
            pause = SWEEP_SECONDS
            try:
                pause = await thread.call(sweep)
            except Exception:
                log.exception("Could not look for schedules; retrying")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
    finally:
        await thread.aclose()


def sweep() -> float:
    """Start what is due now; returns the seconds until there is more to start, or to look for."""
    soonest = trigger.next_firing()
    if soonest is None:
        return SWEEP_SECONDS
    wait = (soonest - database_now()).total_seconds()
    if wait > 0:
        return min(SWEEP_SECONDS, wait)
    return 0.0 if trigger.fire_schedules() else SWEEP_SECONDS
