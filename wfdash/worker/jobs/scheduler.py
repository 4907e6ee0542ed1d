"""The scheduler: starts the runs of schedules when their time has come.

Any number of workers may run it: each time starts one run.
"""

from __future__ import annotations

from checkpoints.database.clock import database_now
from wfdash.actions.schedules import trigger

SWEEP_SECONDS = 1.0
"""So often it looks, and sooner when a time is known to come sooner."""


def sweep() -> float:
    """Start what is due now; returns the seconds until there is more to start, or to look for."""
    soonest = trigger.next_firing()
    if soonest is None:
        return SWEEP_SECONDS
    wait = (soonest - database_now()).total_seconds()
    if wait > 0:
        return min(SWEEP_SECONDS, wait)
    return 0.0 if trigger.fire_schedules() else SWEEP_SECONDS
