"""Worker heartbeat: a row that says every few seconds that this worker lives, and is removed when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import timedelta

from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import WorkerBeat
from wfdash.queries.statistics import readiness
from wfdash.worker.jobs.db_thread import DbThread

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
END_SECONDS = 2.0
FORGET = timedelta(hours=1)
"""Rows of workers that ended without a word are removed after so long, by one that begins."""


async def heartbeat_until(stopping: asyncio.Event, worker: str, driving: Callable[[], int]) -> None:
    """Renew the heartbeat until stopped. ``driving()`` says how many runs are in flight."""
    thread = DbThread("wfdash-heartbeat")
    try:
        await _try(thread, lambda: start_heartbeat(worker))
        while not stopping.is_set():
            await _try(thread, lambda: _record(worker, driving()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), HEARTBEAT_SECONDS)
    finally:
        # A database that is away must not hold up the end.
        await _try(thread, lambda: stop_heartbeat(worker), patience=END_SECONDS)
        await thread.aclose(wait=False)


async def _try(thread: DbThread, call: Callable[[], None], patience: float | None = None) -> None:
    try:
        await asyncio.wait_for(thread.call(call), patience)
    except Exception:
        log.exception("Could not say how this worker is; retrying")


def _record(worker: str, runs: int) -> None:
    late = readiness.lateness(database_now())
    record_heartbeat(worker, runs=runs, late=round(max(late.values(), default=0.0), 3))


def start_heartbeat(worker: str) -> None:
    """Say that a worker begins."""
    now = database_now()
    with write():
        WorkerBeat.objects.filter(seen__lt=now - FORGET).delete()
        WorkerBeat.objects.update_or_create(pk=worker, defaults={"started": now, "seen": now, "runs": 0, "late": 0.0})


def record_heartbeat(worker: str, *, runs: int, late: float) -> None:
    """Say that it lives, how many runs it drives, and by how many seconds what was due at a time is late."""
    with write():
        alive = WorkerBeat.objects.filter(pk=worker).update(seen=database_now(), runs=runs, late=late)
    if not alive:
        start_heartbeat(worker)


def stop_heartbeat(worker: str) -> None:
    """Say that it ends."""
    with write():
        WorkerBeat.objects.filter(pk=worker).delete()
