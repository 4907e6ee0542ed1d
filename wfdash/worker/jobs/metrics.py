"""Counts what happened, beside the runs: a loop of its own, in small portions, and one look when nothing happened."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from functools import partial

from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import HighWaterMark
from wfdash.actions.statistics import metrics_store
from wfdash.worker.jobs.db_thread import DbThread

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""How far figures are behind."""
BREATH = 0.02
"""Seconds between two portions, so that workers get the database in between."""
TIDY_SECONDS = 3600.0


async def count_until(stopping: asyncio.Event) -> None:
    """Count until stopped."""
    thread, count = DbThread("wfdash-metrics"), partial(metrics_store.count_events, HighWaterMark())
    tidy_at = time.monotonic()
    try:
        while not stopping.is_set():
            # Not all at the same moment: of several workers one is enough.
            pause = LOOK_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311
            try:
                if await thread.call(count) >= metrics_store.BATCH:
                    pause = BREATH
                elif time.monotonic() >= tidy_at:
                    tidy_at = time.monotonic() + TIDY_SECONDS
                    await thread.call(tidy)
            except Exception:
                log.exception("Could not count what happened; retrying")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
    finally:
        await thread.aclose()


def tidy() -> None:
    """Keep the figures small."""
    if saved := metrics_store.tidy(database_now()):
        log.info("Put together or removed %d old figures", saved)
