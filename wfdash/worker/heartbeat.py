"""Worker heartbeat: a row that says every few seconds that this worker lives, and is removed when it ends."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.living_workers import OTHERS, others_in
from checkpoints.database.storage import DatabaseStorage, write
from checkpoints.models import WorkerBeat
from checkpoints.sql.claims import SideStatement
from checkpoints.sql.statements import Rows
from wfdash.installation.stopping import waited
from wfdash.queries.statistics import gauges
from wfdash.telemetry.outages import FailingLoop
from wfdash.worker.db_thread import DbThread
from wfdash.worker.election import give_up_lead
from wfdash.worker.serving import Serving

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
BY_LOOK_SECONDS = 4.0
"""So old it must be to be renewed by a look."""
WITH_LOOKS_SECONDS = 7.0
"""So old it may become while looks renew it: the second of those that are seldom comes before."""
FAILED = "Could not say that this worker lives; retrying each 5 s"
END_SECONDS = 2.0
FORGET = timedelta(hours=1)
"""Rows of workers that ended without a word are removed after so long, by one that begins."""
RENEW = f"""
    UPDATE {WorkerBeat._meta.db_table} SET seen = clock_timestamp(), runs = %s, late = 0 WHERE id = %s RETURNING 1
"""  # noqa: S608


class Heartbeat:
    """Renews the row of one worker; ``driving()`` says how many runs are in flight.

    While nothing happens every second look for runs does that as well, in its own transaction.
    """

    def __init__(self, worker: str, driving: Callable[[], int], serving: Serving) -> None:
        self._worker, self._driving, self._serving = worker, driving, serving
        self._loop = FailingLoop(log, FAILED)
        self._written: Mapping[str, str] | None = None
        self._alone = connection().vendor == "sqlite"
        self._at, self._patience = -math.inf, HEARTBEAT_SECONDS
        """When it was renewed, by ``time.monotonic()``, and after how long it is again, unless by a look."""

    def side_statements(self) -> list[SideStatement]:
        """Return what is to be done with a look for runs, of a worker that neither leads nor has anything to do."""
        is_young = time.monotonic() - self._at < BY_LOOK_SECONDS
        if self._alone or is_young or self._written != self._serving.loaded():
            return []
        others = SideStatement((OTHERS, (self._worker,)), lambda rows: self._serving.hear(*others_in(rows)))
        return [SideStatement((RENEW, (self._driving(), self._worker)), self._hear_renewal), others]

    async def run_until(self, stopping: asyncio.Event) -> None:
        """Renew it until cancelled. A worker that is stopped lives until its last step has ended, and serves nothing
        from then on.
        """
        thread = DbThread("wfdash-heartbeat")
        try:
            await self._try(lambda: thread.call(partial(start_heartbeat, self._worker, self._serving.loaded())))
            while not stopping.is_set():
                rest = self._at + self._patience - time.monotonic()
                if rest <= 0:
                    rest = HEARTBEAT_SECONDS
                    await self._try(lambda: thread.repeat(self._record))
                await waited(stopping, rest)
            while True:
                ending = partial(record_heartbeat, self._worker, runs=self._driving(), serves={})
                await self._try(lambda ending=ending: thread.repeat(ending))  # type: ignore[misc]
                await asyncio.sleep(HEARTBEAT_SECONDS)
        finally:
            # A database that is away must not hold up the end.
            await self._try(lambda: thread.call(partial(stop_heartbeat, self._worker)), patience=END_SECONDS)
            await thread.aclose(wait=False)

    async def _try(self, call: Callable[[], Awaitable[None]], patience: float | None = None) -> None:
        try:
            async with asyncio.timeout(patience):
                await call()
        except Exception as error:
            self._loop.failed(error)
        else:
            self._loop.works()

    def _record(self) -> None:
        """Say how it is and look at the others: in one transaction, as every worker of a cluster does this."""
        loaded = self._serving.loaded()
        with write():
            late = gauges.lateness(database_now())
            most = round(max(late.values(), default=0.0), 3)
            record_heartbeat(self._worker, runs=self._driving(), late=most, serves=loaded)
            self._serving.look()
        self._at, self._patience, self._written = time.monotonic(), HEARTBEAT_SECONDS, loaded

    def _hear_renewal(self, rows: Rows) -> None:
        # Without a row, which another worker has removed, it is made again.
        self._at, self._patience = (time.monotonic() if rows else -math.inf), WITH_LOOKS_SECONDS


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


# -- the claims of workers on this machine that were killed are ended, and their lead: neither need be waited for. A
# worker of which that is not certain (on another machine, in another container) counts as alive. Which workers
# there are is read with each heartbeat: the database is not asked each second.

DEAD_SECONDS = 1.0
DEAD_FAILED = "Could not end the claims of workers that have ended; retrying each second"


async def end_dead_until(stopping: asyncio.Event, storage: DatabaseStorage, serving: Serving) -> None:
    """Look for them each second, as long as there are others, until stopped."""
    thread, loop = DbThread("wfdash-dead-workers"), FailingLoop(log, DEAD_FAILED)
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
            await waited(stopping, HEARTBEAT_SECONDS if alone else DEAD_SECONDS)
    finally:
        await thread.aclose(wait=False)


def forget_dead(worker: str) -> None:
    """Remove the heartbeat of a worker whose claims have been ended, and let another lead if it did."""
    log.warning("Worker %s has ended without a word; its runs continue in others", worker)
    give_up_lead(worker)
    stop_heartbeat(worker)
