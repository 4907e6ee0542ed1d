"""Delivery of notifications: sends each receiver what is due in the outbox, several at once, beside the runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections

from wfdash.actions.hooks.receive import forget_deliveries
from wfdash.worker.jobs import outbox
from wfdash.worker.jobs.db_thread import DbThread

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
TIDY_SECONDS = 600.0
SENDERS = 4
"""Receivers served at the same time: one that does not answer must not keep the others waiting."""


async def deliver_until(stopping: asyncio.Event) -> None:
    """Send what is due until stopped. A delivery in progress is completed; the rest is left to the next sender."""
    thread, senders = DbThread("wfdash-delivery"), ThreadPoolExecutor(SENDERS, thread_name_prefix="wfdash-sender")
    busy: set[Any] = set()
    tidy_at = time.monotonic() + TIDY_SECONDS
    try:
        while not stopping.is_set():
            try:
                await _dispatch(thread, senders, busy)
                if time.monotonic() >= tidy_at:
                    tidy_at = time.monotonic() + TIDY_SECONDS
                    await thread.call(tidy)
            except Exception:
                log.exception("Could not look for notifications to send; retrying")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
    finally:
        senders.shutdown(wait=False, cancel_futures=True)
        await thread.aclose()


async def _dispatch(thread: DbThread, senders: ThreadPoolExecutor, busy: set[Any]) -> None:
    """Give each receiver for whom something is due to a sender, one at a time each."""
    for bundle in await thread.call(outbox.due_bundles):
        if bundle not in busy:
            busy.add(bundle)
            carried = asyncio.get_running_loop().run_in_executor(senders, deliver_bundle, bundle)
            carried.add_done_callback(lambda _, bundle=bundle: busy.discard(bundle))  # type: ignore[misc]


def tidy() -> None:
    """Remove old notifications."""
    if count := outbox.forget_old():
        log.info("Removed %d old notifications", count)
    if count := forget_deliveries():
        log.info("Removed %d old deliveries of incoming webhooks", count)


def deliver_bundle(bundle: Any) -> None:
    """Deliver to one receiver, and leave no connection in this thread."""
    try:
        outbox.deliver(bundle)
    except Exception:
        log.exception("Could not deliver; what was claimed comes up again")
    finally:
        connections.close_all()
