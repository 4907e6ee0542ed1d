"""The clockwork of requests: answers take effect, deadlines pass, openings are announced, each at its moment.

Any number of workers may run it: each row is done by one of them, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from wfdash.runner.lane import Lane

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""So often it looks, and sooner when something is known to come up sooner."""
SELDOM = 60
"""Every so many sweeps it tidies up."""
BATCH = 100
"""What one sweep does of each kind; with more to do the next one follows at once."""


async def sweep_until(stopping: asyncio.Event) -> None:
    """Do what is due until stopped."""
    lane, sweeps = Lane("wfdash-alarms"), itertools.count()
    try:
        while not stopping.is_set():
            pause = SWEEP_SECONDS
            try:
                pause = await lane.call(sweep)
                if next(sweeps) % SELDOM == 0:
                    await lane.call(tidy)
            except Exception:
                log.exception("Could not look for deadlines; trying again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
    finally:
        await lane.aclose()


def sweep() -> float:
    """Do what is due now; returns the seconds until there is more to do, or to look for."""
    # Servers import their runner before Django has its models.
    from wfdash.desk import announce, bulk, ending, finding, settling, signals, timers

    began = timers.database_now()
    counts = [
        _count(work)
        for work in (
            settling.settle_due,
            timers.fire_alarms,
            announce.announce_opened,
            ending.end_abandoned,
            signals.match_waiting,
            finding.list_runs,
            finding.note_failures,
            bulk.finish_bulks,
        )
    ]
    if max(counts) >= BATCH:
        return 0.0
    # After ``began``: what was due then and is not done could not be done, but what became due meanwhile can.
    return _pause((settling.next_settling(began), timers.next_alarm(began)), timers.database_now())


def tidy() -> None:
    """Remove what is not needed any more."""
    from wfdash.desk import keys

    while _count(keys.forget_keys) >= BATCH:
        continue


def _count(work: Callable[[int], int]) -> int:
    """One kind of work that fails does not keep the others from being done."""
    try:
        return work(BATCH)
    except Exception:
        log.exception("Could not do what is due (%s); trying again", work.__name__)
        return 0


def _pause(moments: Iterable[datetime | None], now: datetime) -> float:
    """Return the seconds to the nearest moment, at most ``SWEEP_SECONDS``."""
    ahead = [(at - now).total_seconds() for at in moments if at is not None]
    return max(0.0, min([SWEEP_SECONDS, *ahead]))
