"""A worker: claims runs that are due and drives many of them side by side on one event loop.

Correctness never depends on an update: due runs are also polled every second (``due_runs``). Stopping cancels what is
in flight and releases its claims; those runs continue from their latest checkpoint in any worker.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from checkpoints.claims import ClaimRenewer, boottime, process_name
from checkpoints.config import CheckpointConfig
from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import Damaged
from checkpoints.ids import RunId, new_token
from checkpoints.manager import CheckpointManager
from checkpoints.models import Run
from checkpoints.records import Claim, Phase
from checkpoints.storage import CheckpointStorage
from wfdash import pubsub
from wfdash.actions.runs import lifecycle
from wfdash.engines import catalog
from wfdash.installation.stopping import waited
from wfdash.pubsub.hints import current_hints, subscribe
from wfdash.telemetry import logs
from wfdash.telemetry.logs import MaskLinks
from wfdash.worker.consultations import Replies, publish_until
from wfdash.worker.db_thread import DbThread, in_thread
from wfdash.worker.drive import ClaimedRecorder, Lease, advance, fail
from wfdash.worker.due_runs import LOOK_SECONDS, DueRuns, SuspectSlot, Takeovers, look_limit
from wfdash.worker.election import Election
from wfdash.worker.loop_watchdog import Watchdog
from wfdash.worker.serving import Heartbeat, Serving, end_dead_until
from wfdash.worker.sweeps import sweep_until
from wfdash.workflow.runtime import watching
from wfdash.workflow.runtime.invoke import still_running
from wfdash.workflow.runtime.step_ops import running_step

log = logging.getLogger(__name__)
STEADY_SECONDS = 10.0
"""A worker must have lived for so long before it takes its first suspect."""
LEFT_SECONDS = 0.1
"""Between two looks whether functions that were left behind have ended."""


class Worker:
    """Drives up to ``limit`` runs at once. Create and use it on one event loop."""

    def __init__(
        self,
        storage: DatabaseStorage,
        *,
        name: str = "",
        lease: Lease | None = None,
        limit: int | None = None,
        workflows: Collection[str] = (),
        queues: Collection[str] = (),
        among_others: bool = False,
        publishes: bool = False,
        retention: CheckpointConfig | None = None,
    ) -> None:
        """``workflows``, ``queues``: only runs of these. ``retention``: what is saved and kept. Of these and ``limit``
        what is not given is what the settings say. ``among_others``: it holds no run that a worker which it has not
        seen yet may continue. ``publishes``: it describes its workflows to servers without them, and replies to those.
        """
        self.name = name or f"{process_name()}{new_token()[-6:]}"
        self._storage = storage
        self._lease = lease = lease or Lease()
        self._renewer = ClaimRenewer(storage, ttl=self._lease.ttl, every=self._lease.heartbeat)
        self._limit = limit or settings.WFDASH_LIMIT
        self._pruner = BackgroundPruner(storage, retention or settings.WFDASH_RETENTION)
        only, queues = workflows or settings.WFDASH_SERVES, queues or settings.WFDASH_QUEUES
        self._serving = Serving(self.name, only, queues, among_others=among_others)
        self._election = Election(self.name, self._lead)
        self._replies = Replies(self.name, self._serving) if publishes else None
        self._takeovers = Takeovers(grace=lease.ttl, absence=max(lease.ttl - lease.heartbeat, 2 * LOOK_SECONDS))
        self._due = DueRuns(
            storage,
            worker=self.name,
            ttl=self._lease.ttl,
            room=self._room,
            serves=self._serving.serves,
            takes_over=self._takes_over,
            begin=self._begin,
            may_be_seldom=lambda: not self._election.leads and self._hints.are_all_heard,
            share=pubsub.backlog_found.publish,
        )
        self._hints = current_hints()
        self._watchdog = Watchdog(storage, lambda: self.driving, worker=self.name, claim_of=self._claim_of)
        self._heartbeat = Heartbeat(self.name, lambda: self.driving, self._serving)
        self._driving: dict[RunId, asyncio.Task[None]] = {}
        self._next: dict[RunId, tuple[Claim, float]] = {}
        """Claims of runs whose last drive here has not ended yet."""
        self._recorders, self._again = dict[RunId, ClaimedRecorder](), set[RunId]()
        self._unreleased: list[Claim] = []
        """Claims that could not be released in an outage."""
        self._suspects = SuspectSlot(steady_after=STEADY_SECONDS)
        self._stopping, self._cut, self._drain_seconds = asyncio.Event(), asyncio.Event(), 0.0

    @property
    def driving(self) -> int:
        """How many runs are in flight."""
        return len(self._driving)

    @property
    def workflows(self) -> list[str]:
        """The names of those of which it takes runs."""
        return sorted(self._serving.loaded())

    async def serve(self) -> None:
        """Drive due runs until ``stop`` is called, then release what is in flight and return."""
        logs.bind(worker=self.name)
        stop_logging = capture_step_logs()
        self._watchdog.start()
        loops: dict[str, Callable[[asyncio.Event], Coroutine[Any, Any, None]]] = {"due work": self._election.run_until}
        loops["hints"] = partial(self._hints.serve, self)
        loops["heartbeat"] = self._heartbeat.run_until
        if self._replies is not None:
            loops["publish"] = partial(publish_until, serving=self._serving)
            loops["replies"] = self._replies.reply_until
        loops["dead workers"] = partial(
            end_dead_until, storage=self._storage, serving=self._serving, take_over=self._due.take_over
        )
        leave = subscribe(self._due.join, pubsub.backlog_found)
        aside = [asyncio.create_task(serve(self._stopping), name=name) for name, serve in loops.items()]
        try:
            await self._sweep_until_stopped()
            await self._drain()
        finally:
            leave()
            stop_logging()
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)
            await self._release_all()
            await asyncio.to_thread(self._watchdog.close)

    async def _lead(self, halt: asyncio.Event, thread: DbThread) -> None:
        """Do what one worker does on behalf of all."""
        async with asyncio.TaskGroup() as group:
            group.create_task(sweep_until(halt, thread), name="sweep")
            group.create_task(self._pruner.tidy_cancelled_until(halt), name="tidy cancelled")

    def stop(self, *, drain: float = 0.0) -> None:
        """Ask ``serve`` to end. Call it on the worker's loop.

        ``drain``: seconds in which steps that run may end, and calls that must happen once return. No other step
        begins; a run in which none runs is released at once. Called again without, it waits no longer.
        """
        self._drain_seconds = drain
        if self._stopping.is_set() or not drain:
            self._cut.set()
        self._stopping.set()
        self._due.wake()

    def look_at(self, run: str) -> None:
        """Claim the run if it is due; if it is being driven here, let it look for answers, or for its end."""
        if run in self._driving:
            self.wake(run)
        elif self._room() > 0 and self._serving.looked:
            self._due.hint(RunId(run))

    def wake(self, run: str) -> None:
        """If the run is being driven here, let it look for answers, or for its end."""
        run_id = RunId(run)
        if run_id in self._driving:
            self._again.add(run_id)
            if run_id in self._recorders:
                self._recorders[run_id].wake()
                self._renewer.renew_now()

    async def take(self, run: str) -> None:
        """Claim the run if it is due and begin to drive it; returns once that is done. A full worker leaves it."""
        if run in self._driving:
            self.wake(run)
        elif self._room() > 0:
            await self._serving.look_first()
            await self._due.claim(RunId(run))

    def _claim_of(self, run: RunId) -> Claim | None:
        """Return the claim of a run that is being driven here; from any thread."""
        recorder = self._recorders.get(run)
        return None if recorder is None else recorder.lease

    def _room(self) -> int:
        return 0 if self._stopping.is_set() else self._limit - len(self._driving)

    def _takes_over(self) -> bool:
        """Say whether to take runs whose claims have expired: not while its own may have, which it renews first."""
        return self._takeovers.allowed and not self._renewer.is_late()

    def _begin(self, claim: Claim, since: float) -> None:
        """Drive a claimed run, once an earlier drive of it here has ended. ``since``: ``boottime()`` before."""
        run = claim.run
        if run in self._driving:
            self._next[run] = (claim, since)
        else:
            self._driving[run] = asyncio.create_task(self._drive(claim, since), name=f"run {run}")
            self._watchdog.watch()

    async def _sweep_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                async with look_limit():
                    await self._sweep()
            except Exception:
                log.exception("Could not look for due runs; retrying")
            await self._due.rest(self._stopping)

    async def _sweep(self) -> None:
        survivor = self._recorders.get(RunId(self._suspects.run))
        if survivor is not None and self._suspects.is_survivor():
            # It has run for long without ending this process, and makes way for the next.
            await self._storage.trust(survivor.lease)
            self._suspects.clear(survivor.run)
        await self._serving.look_first()
        while self._unreleased:
            await self._storage.release(self._unreleased[-1])
            self._unreleased.pop()
        wanted = self._suspects.wanted() if self._room() > 0 else 0
        beside = self._election.side_statements()
        if beside and self._due.is_idle:
            beside += self._heartbeat.side_statements()
        if self._replies is not None:
            beside += self._replies.side_statements()
        found = await self._storage.look(suspects=wanted, serves=self._serving.serves(), beside=beside)
        self._takeovers.begun(boottime(), among_others=self._serving.may_others_live)
        await self._claim_suspect(found.suspects)
        await self._due.look(found)
        self._takeovers.ended(boottime(), idle=self._due.is_idle)

    async def _claim_suspect(self, found: Iterable[RunId]) -> None:
        chosen = [run for run in found if run not in self._driving]
        if not chosen or not self._takes_over():
            return
        run, since, serves = random.choice(chosen), boottime(), self._serving.serves()  # noqa: S311 (any may be next)
        # In a full worker it would have the slot and never be driven.
        with self._due.reserving(1) as room:
            if not room:
                return
            claim = await self._storage.claim(run, worker=self.name, ttl=self._lease.ttl, serves=serves)
        if claim:
            # Only now: a claim that fails, or takes too long, must leave the slot free for the next look.
            self._suspects.take(run)
            self._begin(claim, since)

    async def _drive(self, claim: Claim, since: float) -> None:
        run = claim.run
        try:
            await self._advance(claim, since)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("Could not run %s; it will be retried", run)
        finally:
            self._recorders.pop(run, None)
            self._driving.pop(run, None)
            self._progressed(run)
            if claim.facts is not None and catalog.limit_of(claim.facts.workflow) is not None:
                self._due.look_again()
            if run in self._next:
                self._begin(*self._next.pop(run))
            elif run in self._again:
                self._again.discard(run)
                self.look_at(run)

    async def _advance(self, claim: Claim, since: float) -> None:
        run = claim.run
        logs.bind(run=run)
        self._again.discard(run)
        try:
            facts = claim.facts or await self._storage.read_run(run)
        except Damaged as error:
            await fail(ClaimedRecorder(self._pruner, claim, "", clock=self._storage.now), error)
            return
        logs.bind(workflow=facts.workflow)
        recorder = ClaimedRecorder(self._pruner, claim, facts.workflow, clock=self._storage.now)
        recorder.renewer = self._renewer
        recorder.progressed = partial(self._progressed, run)
        self._recorders[run] = recorder
        if self._stopping.is_set():
            await self._storage.release(claim)
            return
        outcome = await advance(self._storage, recorder, facts, self._renewer, since, self._serving.holds)
        if outcome is None or still_running(run):
            await self._leave(claim)
        if outcome is None:
            # Maybe it was cancelled; a run that ends here notifies the housekeeper itself.
            await self._pruner.tidy(run)

    def _progressed(self, run: RunId) -> None:
        """Note that a run has made a checkpoint here, or is not driven here any more."""
        self._suspects.clear(run)
        self._due.begun(run)

    async def _leave(self, claim: Claim) -> None:
        """Release the claim once no synchronous function of its run runs here any more: it must not run twice."""
        if left := still_running(claim.run):
            log.info("Run %s has ended here, but its plain functions have not: %s", claim.run, ", ".join(left))
            await in_thread(lifecycle.keep_claim, claim)
            self._renewer.hold(claim, lambda: None)
            try:
                while still_running(claim.run):  # noqa: ASYNC110 (threads know no loop)
                    await asyncio.sleep(LEFT_SECONDS)
            finally:
                self._renewer.let_go(claim)
        try:
            await self._storage.release(claim)
        except Exception as error:
            if not self._storage.is_outage(error):
                raise
            self._unreleased.append(claim)

    async def _drain(self) -> None:
        """Wait for what runs to end between two steps, at most for the seconds that ``stop`` was given."""
        for recorder in self._recorders.values():
            recorder.leave()
        if not self._driving or self._cut.is_set():
            return
        log.info("Stopping: %d runs may end their steps for %g s", len(self._driving), self._drain_seconds)
        cut = asyncio.create_task(self._cut.wait(), name="cut")
        ended = asyncio.create_task(asyncio.wait(list(self._driving.values())), name="drain")
        waits: list[asyncio.Task[Any]] = [cut, ended]
        await asyncio.wait(waits, timeout=self._drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()

    async def _release_all(self) -> None:
        await self._due.aclose()
        # A task that was cancelled before it began would not release its claim.
        await asyncio.sleep(0)
        tasks, waiting = list(self._driving.values()), [claim for claim, _ in self._next.values()]
        self._again.clear()
        self._next.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *map(self._storage.release, waiting), return_exceptions=True)
        await self._pruner.aclose()
        await asyncio.to_thread(self._renewer.close)


# -- checkpoints are kept to the policy: what a worker saves, and what it removes beside the runs it drives

PRUNE_EVERY = 200
"""Steps of a run between two prunings while it is open."""


CANCELLED_SECONDS = 60.0
"""How often runs that were cancelled while suspended are looked for, because no worker runs them."""
LOOK_BACK = timedelta(days=1)
"""A worker that starts looks for what was cancelled while there was none."""
SLACK = timedelta(seconds=30)
"""A cancellation is dated before it is committed."""


class BackgroundPruner(CheckpointManager):
    """A manager that prunes in the background, one run at a time: no step and no end waits for it."""

    def __init__(self, storage: CheckpointStorage, config: CheckpointConfig) -> None:
        super().__init__(storage, config, prune_every=PRUNE_EVERY)
        self._turn = asyncio.Lock()
        self._due: set[RunId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def tidy(self, run: RunId) -> None:
        """Have the run pruned soon, unless it is about to be already."""
        if self.config.limited and run not in self._due:
            self._due.add(run)
            task = asyncio.create_task(self._tidy(run), name=f"prune {run}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def tidy_cancelled_until(self, stopping: asyncio.Event) -> None:
        """Prune runs that were cancelled, wherever that was, until stopped."""
        since = timezone.now() - LOOK_BACK
        while self.config.limited and not stopping.is_set():
            began = timezone.now()
            try:
                for run in await in_thread(cancelled_since, since):
                    await self.tidy(run)
                since = began - SLACK
            except Exception:
                log.exception("Could not look for cancelled runs; retrying")
            await waited(stopping, CANCELLED_SECONDS)

    async def aclose(self) -> None:
        """Stop. What was not done is done after the next save, or by ``manage.py prune``."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tidy(self, run: RunId) -> None:
        async with self._turn:
            self._due.discard(run)
            await super().tidy(run)


def cancelled_since(moment: datetime) -> list[RunId]:
    """Return the runs that were cancelled since then and have more than one checkpoint, oldest first."""
    rows = Run.objects.filter(phase=Phase.CANCELLED, finished__gte=moment, n__gt=1).order_by("finished")
    return [RunId(id_) for id_ in rows.values_list("id", flat=True)]


# -- what steps log is kept as events of their runs, while a worker drives them; their lines in the log name the step


def capture_step_logs() -> Callable[[], None]:
    """Begin to listen, from the level of ``WFDASH_LOG_LEVEL`` on; the returned function ends it."""
    logs.add_source(_step_facts)
    level: int | None = settings.WFDASH_LOG_LEVEL
    return (lambda: None) if level is None else watching.listen(level, MaskLinks())


def _step_facts() -> logs.Facts:
    step = running_step.get()
    return {} if step is None else {"step": step.node.name}
