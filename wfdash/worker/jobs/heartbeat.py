"""Worker heartbeat: a row that says every few seconds that this worker lives, and is removed when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import WorkerBeat
from wfdash.installation.stopping import waited
from wfdash.queries.statistics import readiness
from wfdash.worker.jobs.db_thread import DbThread
from wfdash.worker.serving import Serving

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
END_SECONDS = 2.0
FORGET = timedelta(hours=1)
"""Rows of workers that ended without a word are removed after so long, by one that begins."""


async def heartbeat_until(stopping: asyncio.Event, worker: str, driving: Callable[[], int], serving: Serving) -> None:
    """Renew the heartbeat until cancelled. ``driving()`` says how many runs are in flight.

    A worker that is stopped lives until its last step has ended, and serves nothing from then on.
    """
    thread = DbThread("wfdash-heartbeat")
    try:
        await _try(lambda: thread.call(partial(start_heartbeat, worker, serving.loaded())))
        while not stopping.is_set():
            await _try(lambda: thread.repeat(partial(_record, worker, driving(), serving)))
            await waited(stopping, HEARTBEAT_SECONDS)
        while True:
            await _try(lambda: thread.repeat(partial(record_heartbeat, worker, runs=driving(), serves={})))
            await asyncio.sleep(HEARTBEAT_SECONDS)
    finally:
        # A database that is away must not hold up the end.
        await _try(lambda: thread.call(partial(stop_heartbeat, worker)), patience=END_SECONDS)
        await thread.aclose(wait=False)


async def _try(call: Callable[[], Awaitable[None]], patience: float | None = None) -> None:
    try:
        async with asyncio.timeout(patience):
            await call()
    except Exception:
        log.exception("Could not say how this worker is; retrying")


def _record(worker: str, runs: int, serving: Serving) -> None:
    """Say how it is and look at the others: in one transaction, as every worker of a cluster does this."""
    with write():
        late = readiness.lateness(database_now())
        record_heartbeat(worker, runs=runs, late=round(max(late.values(), default=0.0), 3), serves=serving.loaded())
        serving.look()


def start_heartbeat(worker: str, serves: Mapping[str, str] | None = None) -> None:
    """Say that a worker begins, and what it serves."""
    now = database_now()
    with write():
        WorkerBeat.objects.filter(seen__lt=now - FORGET).delete()
        begun = {"started": now, "seen": now, "runs": 0, "late": 0.0, "serves": serves}
        WorkerBeat.objects.update_or_create(pk=worker, defaults=begun)


def record_heartbeat(worker: str, *, runs: int, late: float = 0.0, serves: Mapping[str, str] | None = None) -> None:
    """Say that it lives, how many runs it drives, by how many seconds what was due at a time is late, and what it
    serves.
    """
    with write():
        beats = WorkerBeat.objects.filter(pk=worker)
        alive = beats.update(seen=database_now(), runs=runs, late=late, serves=serves)
    if not alive:
        start_heartbeat(worker, serves)


def stop_heartbeat(worker: str) -> None:
    """Say that it ends, or has ended."""
    with write():
        WorkerBeat.objects.filter(pk=worker).delete()


def stop_heartbeats_of(home: str) -> None:
    """Say that the workers whose names begin so have ended: others wait for what they had loaded no more."""
    with write():
        WorkerBeat.objects.filter(pk__startswith=home).delete()
