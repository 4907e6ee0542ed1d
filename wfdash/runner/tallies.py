"""Counts what happened, beside the runs: a loop of its own, in small portions, and one look when nothing happened."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from functools import partial

from wfdash.runner.lane import Lane

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""How far figures are behind."""
BREATH = 0.02
"""Between two portions, so that whoever drives runs gets the database in between."""
TIDY_SECONDS = 3600.0


async def count_until(stopping: asyncio.Event) -> None:
    """Count until stopped."""
    # Servers import their runner before Django has its models.
    from wfdash.desk import tallies
    from wfdash.desk.horizon import Horizon

    lane, count = Lane("wfdash-tallies"), partial(tallies.count_events, Horizon())
    tidy_at = time.monotonic()
    try:
        while not stopping.is_set():
            # Not all at the same moment: of several workers one is enough.
            pause = LOOK_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311
            try:
                if await lane.call(count) >= tallies.BATCH:
                    pause = BREATH
                elif time.monotonic() >= tidy_at:
                    tidy_at = time.monotonic() + TIDY_SECONDS
                    await lane.call(tidy)
            except Exception:
                log.exception("Could not count what happened; trying again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
    finally:
        await lane.aclose()


def tidy() -> None:
    """Keep the figures small."""
    from wfdash.desk import tallies, timers

    if saved := tallies.tidy(timers.database_now()):
        log.info("Put together or removed %d old figures", saved)
