"""Ends the claims of workers on this machine that were killed, and their lead: neither need be waited for.

A worker of which that is not certain (on another machine, in another container) counts as alive. Which workers there
are is read with each heartbeat: the database is not asked each second.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from checkpoints.database.storage import DatabaseStorage
from wfdash.installation.stopping import waited
from wfdash.telemetry.outages import FailingLoop
from wfdash.worker.jobs.db_thread import DbThread
from wfdash.worker.jobs.election import give_up_lead
from wfdash.worker.jobs.heartbeat import HEARTBEAT_SECONDS, stop_heartbeat
from wfdash.worker.serving import Serving

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
FAILED = "Could not end the claims of workers that have ended; retrying each second"


async def end_dead_until(stopping: asyncio.Event, storage: DatabaseStorage, serving: Serving) -> None:
    """Look for them each second, as long as there are others, until stopped."""
    thread, loop = DbThread("wfdash-dead-workers"), FailingLoop(log, FAILED)
    try:
        while not stopping.is_set():
            try:
                for worker in await thread.call(serving.ended) if serving.has_others else ():
                    await storage.expire_claims(worker_prefix=worker)
                    await thread.call(partial(forget_dead, worker))
                    serving.forget(worker)
                loop.works()
            except Exception as error:
                loop.failed(error)
            # Where a look has found no others, the next one comes with a heartbeat.
            alone = serving.looked and not serving.has_others
            await waited(stopping, HEARTBEAT_SECONDS if alone else LOOK_SECONDS)
    finally:
        await thread.aclose(wait=False)


def forget_dead(worker: str) -> None:
    """Remove the heartbeat of a worker whose claims have been ended, and let another lead if it did."""
    log.warning("Worker %s has ended without a word; its runs continue in others", worker)
    give_up_lead(worker)
    stop_heartbeat(worker)
