"""A worker: takes runs that are due and drives many of them side by side on one event loop.

Correctness never depends on a bell: due runs are also looked for every second. Stopping cancels what is in flight
and releases its claims; those runs go on from their latest checkpoint wherever a worker looks next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from functools import partial

from django.conf import settings

from checkpoints.config import CheckpointConfig
from checkpoints.errors import Damaged
from checkpoints.ids import RunId, new_token
from checkpoints.orm import DatabaseStorage
from wfdash import nudge
from wfdash.runner.alarms import sweep_until
from wfdash.runner.beat import beat_until
from wfdash.runner.clockwork import fire_until
from wfdash.runner.drive import Lease, advance, fail
from wfdash.runner.held import release_until
from wfdash.runner.housekeeping import Housekeeper
from wfdash.runner.postman import deliver_until
from wfdash.runner.recorder import ClaimedRecorder
from wfdash.runner.steplogs import listen_to_steps
from wfdash.runner.tallies import count_until
from wfdash.runner.verbs import load_verbs

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
SWEEP_TIMEOUT = 5.0
"""Seconds a sweep may take: asking anew makes a connection pool try again to reach a database that was away."""


class Worker:
    """Drives up to ``limit`` runs at once. Create and use it on one event loop."""

    def __init__(
        self,
        storage: DatabaseStorage,
        *,
        name: str = "",
        lease: Lease | None = None,
        limit: int = 500,
        retention: CheckpointConfig | None = None,
    ) -> None:
        """``retention``: what is saved and kept; by default what the settings say."""
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{new_token()[-6:]}"
        self._storage = storage
        self._lease = lease or Lease()
        self._limit = limit
        self._housekeeper = Housekeeper(storage, retention or settings.WFDASH_RETENTION)
        self._driving: dict[RunId, asyncio.Task[None]] = {}
        self._recorders: dict[RunId, ClaimedRecorder] = {}
        self._again: set[RunId] = set()
        self._stopping = asyncio.Event()

    @property
    def driving(self) -> int:
        """How many runs are in flight."""
        return len(self._driving)

    async def serve(self) -> None:
        """Drive due runs until ``stop`` is called, then release what is in flight and return."""
        load_verbs()
        loop = asyncio.get_running_loop()
        leave = nudge.runs_due.listen(_across(loop, self.look_at))
        hush = listen_to_steps()
        loops = {"release held runs": release_until, "clockwork": sweep_until, "postman": deliver_until}
        loops |= {"prune cancelled runs": self._housekeeper.tidy_cancelled_until, "schedules": fire_until}
        loops["count"] = count_until
        loops["beat"] = partial(beat_until, worker=self.name, driving=lambda: self.driving)
        aside = [asyncio.create_task(serve(self._stopping), name=name) for name, serve in loops.items()]
        try:
            await self._sweep_until_stopped()
        finally:
            leave()
            hush()
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)
            await self._release_all()

    def stop(self) -> None:
        """Ask ``serve`` to end. Call it on the worker's loop."""
        self._stopping.set()

    def look_at(self, run: str) -> None:
        """Take the run if it is due; if it is being driven here, let it look for answers, or for its end."""
        run_id = RunId(run)
        if run_id in self._driving:
            self._again.add(run_id)
            if run_id in self._recorders:
                self._recorders[run_id].wake()
        elif not self._stopping.is_set() and len(self._driving) < self._limit:
            self._driving[run_id] = asyncio.create_task(self._drive(run_id), name=f"run {run_id}")

    async def _sweep_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(SWEEP_TIMEOUT):
                    await self._sweep()
            except Exception:
                log.exception("Could not look for due runs; trying again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), SWEEP_SECONDS)

    async def _sweep(self) -> None:
        await self._storage.sync_clock()
        for run in await self._storage.due(limit=self._limit):
            if run not in self._driving:
                self.look_at(run)

    async def _drive(self, run: RunId) -> None:
        try:
            await self._claim_and_advance(run)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("Could not drive run %s; it will be tried again", run)
        finally:
            self._recorders.pop(run, None)
            self._driving.pop(run, None)
            if run in self._again:
                self._again.discard(run)
                self.look_at(run)

    async def _claim_and_advance(self, run: RunId) -> None:
        self._again.discard(run)
        claim = await self._storage.claim(run, worker=self.name, ttl=self._lease.ttl)
        if claim is None:
            return
        try:
            facts = await self._storage.read_run(run)
        except Damaged as error:
            await fail(ClaimedRecorder(self._housekeeper, claim, "", clock=self._storage.now), error)
            return
        recorder = ClaimedRecorder(self._housekeeper, claim, facts.workflow, clock=self._storage.now)
        self._recorders[run] = recorder
        if self._stopping.is_set():
            await self._storage.release(claim)
            return
        if await advance(self._storage, recorder, facts, self._lease) is None:
            # Perhaps it was cancelled; a run that ends here tells the housekeeper itself.
            await self._housekeeper.tidy(run)

    async def _release_all(self) -> None:
        tasks = list(self._driving.values())
        self._again.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._housekeeper.aclose()


def _across(loop: asyncio.AbstractEventLoop, listener: Callable[[str], None]) -> Callable[[str], None]:
    """Return the listener as one that may be called from any thread."""

    def hand_over(run: str) -> None:
        loop.call_soon_threadsafe(listener, run)

    return hand_over
