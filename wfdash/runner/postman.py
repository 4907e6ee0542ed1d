"""The postman: brings each receiver what is due in the outbox, several at the same time, beside the runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections

from wfdash.runner.lane import Lane

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
TIDY_SECONDS = 600.0
CARRIERS = 4
"""Receivers served at the same time: one that does not answer must not keep the others waiting."""


async def deliver_until(stopping: asyncio.Event) -> None:
    """Send what is due until stopped. A delivery under way ends by itself; what was not begun is found by the next."""
    lane, carriers = Lane("wfdash-postman"), ThreadPoolExecutor(CARRIERS, thread_name_prefix="wfdash-carrier")
    busy: set[Any] = set()
    tidy_at = time.monotonic() + TIDY_SECONDS
    try:
        while not stopping.is_set():
            try:
                await _hand_out(lane, carriers, busy)
                if time.monotonic() >= tidy_at:
                    tidy_at = time.monotonic() + TIDY_SECONDS
                    await lane.call(tidy)
            except Exception:
                log.exception("Could not look for notices to send; trying again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), LOOK_SECONDS)
    finally:
        carriers.shutdown(wait=False, cancel_futures=True)
        await lane.aclose()


async def _hand_out(lane: Lane, carriers: ThreadPoolExecutor, busy: set[Any]) -> None:
    """Give each receiver for whom something is due to a carrier, one at a time each."""
    # Servers import their runner before Django has its models.
    from wfdash.desk import outbox

    for bundle in await lane.call(outbox.due_bundles):
        if bundle not in busy:
            busy.add(bundle)
            carried = asyncio.get_running_loop().run_in_executor(carriers, carry, bundle)
            carried.add_done_callback(lambda _, bundle=bundle: busy.discard(bundle))  # type: ignore[misc]


def tidy() -> None:
    """Remove what was told long ago."""
    from wfdash.desk import outbox

    if count := outbox.forget_old():
        log.info("Removed %d old notices", count)


def carry(bundle: Any) -> None:
    """Deliver to one receiver, and leave no connection in this thread."""
    from wfdash.desk import outbox

    try:
        outbox.deliver(bundle)
    except Exception:
        log.exception("Could not deliver; what was claimed comes up again")
    finally:
        connections.close_all()
