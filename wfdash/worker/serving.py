"""What this worker serves, its heartbeat, and what the workers beside it have loaded.

It never claims a run whose code it lacks. The heartbeat is a row that says every few seconds that this worker lives,
and is removed when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial

from checkpoints.claims import boottime, is_gone, process_of
from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.living_workers import OTHERS, others, others_in
from checkpoints.database.storage import DatabaseStorage, write
from checkpoints.ids import RunId
from checkpoints.models import WorkerBeat
from checkpoints.sql.claims import SideStatement
from checkpoints.sql.statements import Rows
from checkpoints.storage import Serves
from wfdash import pubsub
from wfdash.engines import catalog
from wfdash.installation.stopping import waited
from wfdash.pubsub.hints import subscribe
from wfdash.queries.statistics import gauges
from wfdash.telemetry.logs import FailingLoop
from wfdash.worker.db_thread import DbThread, in_thread
from wfdash.worker.election import give_up_lead

HOLD_SECONDS = 60.0
"""A run is held once no worker has had its version for so long: one that restarts may bring it back."""


class Serving:
    """The workflows of one worker: of those that are loaded the named ones (``only``; empty: all) in these ``queues``
    (empty: in any).
    """

    def __init__(
        self,
        worker: str,
        only: Collection[str] = (),
        queues: Collection[str] = (),
        *,
        among_others: bool = False,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """``among_others``: workers run beside this one, which it may not have seen yet: any version may be one's."""
        self._worker = worker
        self._only = frozenset(only)
        self._queues = frozenset(queues)
        self._clock = clock
        self._elsewhere: Sequence[tuple[str, str]] | None = None
        self._begun = clock() if among_others else -math.inf
        self._seen: dict[tuple[str, str], float] = {}
        """Workflow and version -> when another worker had it."""
        self._left: frozenset[tuple[str, str]] = frozenset()
        """Workflows and versions from which nothing leads to what is loaded here, as the first of their runs showed."""
        self.others: Sequence[str] = ()
        """The other workers at the last look, also such as may have ended."""

    def loaded(self) -> dict[str, str]:
        """Return workflow -> version of what this worker runs."""
        return {one.name: one.description.version for one in self.entries()}

    def limits(self) -> dict[str, int]:
        """Return workflow -> how many of its runs may execute at once, of those that have a limit."""
        return {one.name: one.description.limit for one in self.entries() if one.description.limit is not None}

    def entries(self) -> list[catalog.Entry]:
        """Return the workflows of which it takes runs."""
        return [one for one in catalog.load().entries.values() if self._takes(one)]

    def _takes(self, entry: catalog.Entry) -> bool:
        named, queue = not self._only or entry.name in self._only, entry.description.queue
        return named and (not self._queues or queue in self._queues)

    def serves(self) -> Serves:
        """Return which runs it claims.

        A run of another version is left to a worker that has it. Where there is none, this one claims it, too, to
        migrate it as declared or to hold it.
        """
        self._left, loaded = frozenset(pair for pair in self._left if self._may_return(pair)), self.loaded()
        elsewhere = {*(self._elsewhere or ()), *self._left}
        theirs = sorted((name, version) for name, version in elsewhere if loaded.get(name, version) != version)
        return Serves(workflows=tuple(sorted(loaded)), others=tuple(theirs), limits=self.limits())

    def holds(self, workflow: str, version: str) -> bool:
        """Return whether to hold a run of this version, from which nothing leads to what is loaded here.

        Otherwise its runs are left until a worker with it is back, or none has had it for ``HOLD_SECONDS``.
        """
        pair = (workflow, version)
        if not self._may_return(pair):
            return True
        self._left |= {pair}
        return False

    def _may_return(self, pair: tuple[str, str]) -> bool:
        return self._clock() - self._seen.get(pair, self._begun) < HOLD_SECONDS

    def look(self) -> None:
        """Look which other workers live and what they have loaded: with each heartbeat. It uses the ORM."""
        self.hear(*others(self._worker))

    def hear(self, workers: Sequence[str], loaded: Iterable[Mapping[str, str] | None]) -> None:
        """Take what such a look found: the other workers, and what each of them that lives has loaded."""
        self.others, now = workers, self._clock()
        self._elsewhere = [pair for one in loaded for pair in (one or {}).items()]
        self._seen.update(dict.fromkeys(self._elsewhere, now))

    def ended(self) -> list[str]:
        """Return the names of the other workers, at the last look, that ran on this machine and have ended."""
        return [name for name in self.others if is_gone(name)]

    def may_others_live(self) -> bool:
        """Return whether any of them may live: of some it is certain that they have ended."""
        return len(self.ended()) < len(self.others)

    def meet(self, worker: str) -> None:
        """Count a worker that has begun among the others until the next look."""
        if worker != self._worker:
            self.others = [*self.others, worker]

    def forget(self, worker: str) -> None:
        """Do not return that worker again."""
        self.others = [name for name in self.others if name != worker]

    @property
    def looked(self) -> bool:
        """Whether it is known what the other workers have: before, hints wait for the first look for due runs."""
        return self._elsewhere is not None

    async def look_first(self) -> None:
        """Look, unless it has: a worker that claimed before would hold runs whose version another worker has."""
        if not self.looked:
            await in_thread(self.look)


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
            await self._try(thread.call(partial(start_heartbeat, self._worker, self._serving.loaded())))
            while not stopping.is_set():
                rest = self._at + self._patience - time.monotonic()
                if rest <= 0:
                    rest = HEARTBEAT_SECONDS
                    await self._try(thread.repeat(self._record))
                await waited(stopping, rest)
            while True:
                ending = partial(record_heartbeat, self._worker, runs=self._driving(), serves={})
                await self._try(thread.repeat(ending))
                await asyncio.sleep(HEARTBEAT_SECONDS)
        finally:
            # A database that is away must not hold up the end.
            await self._try(thread.call(partial(stop_heartbeat, self._worker)), patience=END_SECONDS)
            await thread.aclose(wait=False)

    async def _try(self, call: Awaitable[None], patience: float | None = None) -> None:
        try:
            async with asyncio.timeout(patience):
                await call
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
    pubsub.worker_begun.publish(worker)


def record_heartbeat(worker: str, *, runs: int, late: float = 0.0, serves: Mapping[str, str] | None = None) -> None:
    """Say that it lives, how many runs it drives, by how many seconds what was due at a time is late, and what it
    serves.
    """
    with write():
        beats = WorkerBeat.objects.filter(pk=worker)
        alive = beats.update(seen=database_now(), runs=runs, late=late, serves=serves)
    if not alive:
        start_heartbeat(worker, serves)


def stop_heartbeat(home: str) -> None:
    """Say that it ends, or that all whose names begin so have ended: others wait for what they had loaded no more."""
    with write():
        WorkerBeat.objects.filter(pk__startswith=home).delete()


# -- the claims of workers on this machine that were killed are ended, and their lead: neither need be waited for. A
# worker of which that is not certain (on another machine, in another container) counts as alive. The kernel says when
# a process ends, and then it is looked at: what it says may be of another process that has the id by now.

DEAD_SECONDS = 1.0
"""Between two looks where the kernel cannot say that a process ends, or the database takes nothing."""
SOON_SECONDS = 0.02
"""At least between two looks."""
DEAD_FAILED = "Could not end the claims of workers that have ended; retrying each second"


@contextmanager
def watching(workers: Iterable[str], ended: asyncio.Event) -> Iterator[float]:
    """Set ``ended`` when a process of this machine ends that has one of these names; yields after how many seconds to
    look nevertheless.
    """
    loop, seconds = asyncio.get_running_loop(), HEARTBEAT_SECONDS
    with ExitStack() as files:
        for pid, _ in filter(None, map(process_of, workers)):
            try:
                file = os.pidfd_open(pid)
            except ProcessLookupError:
                ended.set()
            except OSError:
                seconds = DEAD_SECONDS
            else:
                files.callback(os.close, file)
                files.callback(loop.remove_reader, file)
                loop.add_reader(file, ended.set)
        yield seconds


async def end_dead_until(
    stopping: asyncio.Event,
    storage: DatabaseStorage,
    serving: Serving,
    take_over: Callable[[Sequence[RunId]], Awaitable[None]],
) -> None:
    """End them as soon as it is known that they have ended, until stopped; ``take_over(runs)`` gets their runs."""
    failing, changed = FailingLoop(log, DEAD_FAILED), asyncio.Event()

    def meet(worker: str) -> None:
        serving.meet(worker)
        changed.set()

    leave = subscribe(meet, pubsub.worker_begun)
    try:
        while not stopping.is_set():
            try:
                for worker in serving.ended():
                    await take_over(await storage.expire_claims(worker_prefix=worker))
                    await in_thread(forget_dead, worker)
                    serving.forget(worker)
                failing.works()
            except Exception as error:
                failing.failed(error)
                await asyncio.sleep(DEAD_SECONDS)
            changed.clear()
            with watching(serving.others, changed) as seconds:
                await waited(changed, seconds)
            await asyncio.sleep(SOON_SECONDS)
    finally:
        leave()


def forget_dead(worker: str) -> None:
    """Remove the heartbeat of a worker whose claims have been ended, and let another lead if it did."""
    log.warning("Worker %s has ended without a word; its runs continue in others", worker)
    give_up_lead(worker)
    stop_heartbeat(worker)
