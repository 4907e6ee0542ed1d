"""The clockwork of schedules: starts their runs when their time has come.

Any number of workers may run it: each time starts one run. Without schedules it costs one look into an index a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from wfdash.runner.lane import Lane

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""So often it looks, and sooner when a time is known to come sooner."""


async def fire_until(stopping: asyncio.Event) -> None:
    """Start what is due until stopped."""
    lane = Lane("wfdash-schedules")
    try:
        while not stopping.is_set():
            pause = SWEEP_SECONDS
            try:
                pause = await lane.call(sweep)
            except Exception:
                log.exception("Could not look for schedules; trying again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
    finally:
        await lane.aclose()


def sweep() -> float:
    """Start what is due now; returns the seconds until there is more to start, or to look for."""
    # Servers import their runner before Django has its models.
    from wfdash.desk import firing, timers

    soonest = firing.next_firing()
    if soonest is None:
        return SWEEP_SECONDS
    wait = (soonest - timers.database_now()).total_seconds()
    if wait > 0:
        return min(SWEEP_SECONDS, wait)
    return 0.0 if firing.fire_schedules() else SWEEP_SECONDS
