"""Drive one claimed run: build the input from tables alone, call the engine, see to it that the end is recorded.

A crash and an answer take the same road: whatever the reason a run is due, it resumes from its latest checkpoint
with the answers that have been accepted. Only a run that has no checkpoint yet starts, and one that follows a finished
run begins with that run's last checkpoint and its own message. A run of another graph is carried over to the loaded
one by what its author declared, or held.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import datetime

from django.conf import settings

from checkpoints import rules
from checkpoints.claims import ClaimRenewer
from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import CheckpointsError, ClaimLost, Damaged
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.recorder import BoundRecorder, utc_now
from checkpoints.records import SIGNAL, Answer, Claim, Commit, Phase, Reason, Request, RunFacts, Standing, frozen
from checkpoints.storage import Journal
from wfdash import pubsub
from wfdash.actions.runs import lifecycle, signals
from wfdash.actions.runs.migrate import Holds, migrate_or_hold
from wfdash.contract import Continue, Continues, Outcome, Resume, RunInput, Start, TellsInFlight
from wfdash.domain.errors import WfdashError, WrongState
from wfdash.engines import catalog
from wfdash.telemetry import tracing
from wfdash.values.errors import error_info, message_of
from wfdash.worker.db_thread import in_thread

log = logging.getLogger(__name__)


class GivenUp(WfdashError):
    """A run is not driven any more: its workers ended again and again."""


RENEWALS_PER_CLAIM = 4
"""How often a claim is renewed before it would expire."""
LASTS = 0.95
"""Of the seconds that the settings say: by their end another worker has found and begun the run."""


@frozen
class Lease:
    """How long a claim lasts without being renewed, and how often it is renewed, in seconds; as the settings say."""

    ttl: float = field(default_factory=lambda: settings.WFDASH_CLAIM_SECONDS * LASTS)
    heartbeat: float = field(default_factory=lambda: settings.WFDASH_CLAIM_SECONDS * LASTS / RENEWALS_PER_CLAIM)


async def advance(
    storage: DatabaseStorage,
    recorder: ClaimedRecorder,
    facts: RunFacts,
    renewer: ClaimRenewer,
    since: float,
    holds: Holds = lambda workflow, version: True,
) -> Outcome | None:
    """Drive a claimed run until it ends, parks or is lost. Returns None when it does not continue here.

    ``since``: ``boottime()`` before it was claimed. ``holds(workflow, version)``: whether to hold a run whose version
    leads to nothing that is loaded, or to leave it.
    """
    claim = recorder.lease
    try:
        async with renewer.holding(claim, since=since):
            recorder.trace = await tracing.follow(claim, facts)
            return await _drive(storage, recorder, facts, holds)
    except ClaimLost:
        log.info("Run %s does not continue in this worker", claim.run)
        return None
    except asyncio.CancelledError:
        await asyncio.shield(_let_go(storage, recorder))
        raise
    except Exception as error:
        if storage.is_outage(error):
            log.error("Database unavailable for run %s, it will be retried: %s", claim.run, error)
        else:
            await fail(recorder, error)
        return None
    finally:
        recorder.trace.close()
        pubsub.streamed_text.forget(recorder.lease.run)


async def _let_go(storage: DatabaseStorage, recorder: ClaimedRecorder) -> None:
    """Release a run that was interrupted; end it if someone asked that it ends after the step that ran."""
    try:
        await recorder.end_before_steps()
    except Exception as error:
        log.info("Run %s was interrupted: %s", recorder.run, error)
    await storage.release(recorder.lease)


async def _drive(storage: DatabaseStorage, recorder: ClaimedRecorder, facts: RunFacts, holds: Holds) -> Outcome | None:
    entry = catalog.find(facts.workflow)
    if rules.is_given_up(facts.attempts):
        raise GivenUp(await _why_given_up(storage, facts, entry))
    if entry is None or (facts.version and facts.version != entry.description.version):
        if not await in_thread(migrate_or_hold, recorder.lease, holds):
            return None
        facts, entry = await storage.read_run(recorder.lease.run), catalog.get(facts.workflow)
    given = await _read_input(storage, recorder, facts)
    if isinstance(given, Continue) and not isinstance(entry.engine, Continues):
        raise WrongState(
            f"The engine {entry.engine.name!r} cannot follow up on a finished run. Start a new run instead"
        )
    if recorder.lease.recovered:
        pubsub.streamed_text.take_over(recorder.lease.run)
        event = EventKind.RUN_RECOVERED.draft(worker=recorder.lease.worker, epoch=recorder.lease.epoch)
        await recorder.commit(Commit(run=recorder.lease.run, events=(event,)))
        await recorder.end_before_steps()
    return await entry.engine.drive(entry.definition, given, recorder)


async def _why_given_up(storage: DatabaseStorage, facts: RunFacts, entry: catalog.Entry | None) -> str:
    checkpoint = await storage.get_latest(facts.run)
    steps: tuple[str, ...] = ()
    if checkpoint is not None and entry is not None and isinstance(entry.engine, TellsInFlight):
        steps = entry.engine.in_flight(entry.definition, checkpoint).steps
    return (
        f"The worker process ended {facts.attempts} times in a row before this run finished another step, "
        f"{rules.MAX_DEATHS} times while no other suspected run was in it, so this run probably ends its process "
        "(memory, a crash in native code, os._exit). "
        f"Running steps: {', '.join(steps) or 'none that is known'}. Change what they do, then retry the run."
    )


async def _read_input(storage: DatabaseStorage, recorder: ClaimedRecorder, facts: RunFacts) -> RunInput:
    run = recorder.lease.run
    checkpoint = await storage.get_latest(run) if facts.n else None
    if (checkpoint.n if checkpoint else 0) < facts.n:
        raise Damaged(f"Checkpoint {facts.n} of this run is missing: restore an older one")
    if checkpoint is None:
        return Start(run=run, message=facts.input)
    answers = await storage.read_answers(run)
    decided = [key for key in answers if key.startswith(rules.BUDGET)]
    if (decided or settings.WFDASH_BUDGETS) and not await in_thread(lifecycle.within_budget, recorder.lease):
        raise ClaimLost(run=run)
    if rules.is_message_due(checkpoint):
        return Continue(run=run, checkpoint=checkpoint, message=facts.input)
    # The dashboard's own question: no engine knows it.
    answers = {key: answer for key, answer in answers.items() if key not in decided}
    recorder.resumed_with(answers, checkpoint.requests)
    return Resume(run=run, checkpoint=checkpoint, answers=answers)


async def fail(recorder: ClaimedRecorder, error: Exception) -> None:
    """Record that the run failed outside any step; its checkpoints stay as they are."""
    run = recorder.lease.run
    log.error("Run %s failed: %s", run, message_of(error), exc_info=error)
    expected = isinstance(error, CheckpointsError | WfdashError)
    info = error_info(error)
    info = info.model_copy(update={"traceback": ""}) if expected else info
    event = EventKind.RUN_FAILED.draft(error=info.model_dump(exclude={"traceback"}))
    closed = (error.facts["key"],) if isinstance(error, lifecycle.BudgetReached) else ()
    commit = Commit(run=run, closed=closed, events=(event,), standing=Standing(phase=Phase.FAILED, error=info))
    with contextlib.suppress(ClaimLost):
        await recorder.commit(commit)


# -- the recorder, which writes under a claim and publishes after each commit


class AnswerKept(WfdashError):
    """An engine suspended a run without closing a request whose answer it was given: it would be given it forever."""


ENDS = frozenset(
    {
        *(EventKind.STEP_FINISHED, EventKind.STEP_FAILED, EventKind.STEP_RETRYING),
        *(EventKind.STEP_WAITING, EventKind.STEP_SLEEPING),
    }
)
"""After these what a step streamed is no longer being written."""


class ClaimedRecorder(BoundRecorder):
    """What the engine may do to the world while this worker holds the run."""

    def __init__(
        self, journal: Journal, claim: Claim, workflow: str, *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        def show(step: str, text: str) -> None:
            pubsub.streamed_text.add(claim.run, step, text)

        super().__init__(journal, claim.run, claim, stream=show, clock=clock)
        self.lease = claim
        self.trace: tracing.Trace = tracing.UNTRACED
        self.progressed: Callable[[], None] = lambda: None
        """Called after each commit that holds a checkpoint."""
        self.renewer: ClaimRenewer | None = None
        """What keeps its claim alive."""
        self.drains = self.draining = False
        self._leaving = False
        self._over = False
        """Whether its budget is reached, so that no further step is to start."""
        self._active = set[str | None]()
        """The activations that have started and not ended, and the steps that continue with an answer."""
        self._workflow = workflow
        self._to_close: frozenset[RequestKey] = frozenset()
        self._doubt = claim.recovered
        """Return whether the run may have been asked to end after the running step."""

    def resumed_with(self, answers: Mapping[RequestKey, Answer], asked: Iterable[Request] = ()) -> None:
        """Record the answers that the run resumes with: their requests must be closed before it is suspended.

        ``asked``: what is pending, of which steps.
        """
        self._active.update(request.step for request in asked if request.key in answers)
        self.handed_out(answers)
        self._to_close = frozenset(answers)

    async def commit(self, commit: Commit) -> None:
        """Write a commit in one transaction, then notify its watchers; ``ClaimLost`` ends the drive.

        ``AnswerKept``: it suspends the run, and a request whose answer the run resumed with was not closed.
        """
        if self.renewer is not None and self.renewer.has_lapsed(self.lease):
            await self.renewer.confirm(self.lease)
        self._to_close -= frozenset(commit.closed)
        if commit.standing is not None and commit.standing.phase is Phase.WAITING and self._to_close:
            kept = ", ".join(sorted(self._to_close))
            raise AnswerKept(
                f"The engine resumed with an answer to {kept} and suspended the run without closing that request. "
                "An engine must close each request whose answer it is given: see Engines in the documentation"
            )
        if self.renewer is not None:
            with self.renewer.committing(self.lease, ends=commit.standing is not None):
                await super().commit(commit)
        else:
            await super().commit(commit)
        self.trace.saw(commit)
        for event in commit.events:
            if event.step and event.kind in ENDS:
                pubsub.streamed_text.forget(self.run, event.step)
        if commit.checkpoint is not None:
            self.progressed()
        pubsub.runs_changed.publish(self.run, self.seq)
        if commit.opened or commit.closed:
            pubsub.inbox_changed.publish(self._workflow)
        if commit.opened and any(request.kind == SIGNAL for request in commit.opened):
            await self._match_signals()
        if settings.WFDASH_BUDGETS:
            await self._keep_budget(commit)
        if (self._doubt or self.draining) and _ends_a_step(commit):
            await self._end_if_asked(commit)
        if self._leaving and not self.drains and commit.standing is None and _ends_a_step(commit):
            raise ClaimLost(run=self.run)

    async def _keep_budget(self, commit: Commit) -> None:
        """Let no further step start once the run has reached its budget, and hold the run once none runs."""
        for event in commit.events:
            if event.kind == EventKind.STEP_STARTED:
                self._active.add(event.data.get("activation"))
            elif event.kind in ENDS:
                self._active -= {event.data.get("activation"), event.step}
        if commit.standing is not None:
            return
        if not self._over and any(event.kind == EventKind.USAGE for event in commit.events):
            self._over = await in_thread(lifecycle.is_over_budget, self.run)
        if self._over and self.drains:
            self.draining = True
        elif self._over and commit.checkpoint is not None and not self._active:
            await self._hold_at_budget()

    async def _hold_at_budget(self) -> None:
        if self._over and not await in_thread(lifecycle.within_budget, self.lease):
            raise ClaimLost(run=self.run)
        self._over = False

    async def confirm(self) -> None:
        """Return once it is sure that this worker still has the run; ``ClaimLost``."""
        if self.renewer is not None and not self.renewer.is_held(self.lease):
            await self.renewer.confirm(self.lease)

    def wake(self) -> None:
        """Look for answers, and at the next step's end for whether the run is to end there."""
        self._doubt = True
        super().wake()

    def leave(self) -> None:
        """Let the run end here once no step of it runs; another worker continues it."""
        self._leaving = self.draining = True
        self.interrupt()

    async def _match_signals(self) -> None:
        """Look whether the run keeps what has just begun to be waited for; the sweep does if this fails."""
        try:
            await in_thread(signals.match_signals, self.run)
        except Exception:
            log.exception("Could not look for signals of run %s; retrying", self.run)

    async def _end_if_asked(self, commit: Commit) -> None:
        self._doubt = False
        begun = frozenset(event.step for event in commit.events if event.kind == EventKind.STEP_STARTED and event.step)
        after = (commit.checkpoint.step if commit.checkpoint else None) or ""
        drained = commit.standing is not None or not self.drains
        found = await in_thread(lifecycle.end_after_step, self.lease, after, begun, drained=drained)
        self.draining = found == "waits" or self._leaving or self._over
        if found == "ended":
            raise ClaimLost(run=self.run)

    async def end_before_steps(self) -> None:
        """End here (``ClaimLost``) if someone asked the run to end after a step: no step runs any more."""
        if await in_thread(lifecycle.end_after_step, self.lease):
            raise ClaimLost(run=self.run)

    async def drained(self) -> None:
        """End here (``ClaimLost``) if the worker stops or a pause is still requested, else continue: no step runs."""
        self.draining = False
        if await in_thread(lifecycle.end_after_step, self.lease, begun=None) or self._leaving:
            raise ClaimLost(run=self.run)
        await self._hold_at_budget()


def _ends_a_step(commit: Commit) -> bool:
    """Say whether nothing of the step that ran is lost if the run ends with this commit."""
    ends = commit.checkpoint is not None and commit.checkpoint.reason in {Reason.STEP, Reason.FAILURE}
    return ends or commit.standing is not None
