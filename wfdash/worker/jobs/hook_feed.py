"""Writes what happened to runs to the outbox of webhooks, beside the runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from checkpoints.database.high_water_mark import HighWaterMark
from wfdash.actions.hooks import feed
from wfdash.worker.jobs.db_thread import DbThread

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


async def feed_until(stopping: asyncio.Event) -> None:
    """Follow the events of all runs until stopped."""
    thread, look = DbThread("wfdash-webhooks"), partial(feed.feed_webhooks, HighWaterMark())
    try:
        while not stopping.is_set():
            pause = LOOK_SECONDS
            try:
                if await thread.call(look) >= feed.BATCH:
                    pause = 0.0
            except Exception:
                log.exception("Could not look for what webhooks are sent; retrying")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
    finally:
        await thread.aclose()
