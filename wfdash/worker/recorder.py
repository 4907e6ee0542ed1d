"""A ``Recorder`` that writes under a claim and publishes after each commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from checkpoints.claims.renewal import ClaimRenewer
from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.recorder import BoundRecorder, utc_now
from checkpoints.records import SIGNAL, Answer, Claim, Commit, Phase, Reason
from checkpoints.storage import Journal
from wfdash import pubsub
from wfdash.actions.runs import cancellation, signals
from wfdash.errors import WfdashError
from wfdash.telemetry import tracing
from wfdash.worker.version_holds import in_thread

log = logging.getLogger(__name__)


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
        super().__init__(journal, claim.run, claim, stream=self._show, clock=clock)
        self.lease = claim
        self.trace: tracing.Trace = tracing.UNTRACED
        self.progressed: Callable[[], None] = lambda: None
        """Called after each commit that holds a checkpoint."""
        self.renewer: ClaimRenewer | None = None
        """What keeps its claim alive."""
        self.drains = self.draining = False
        self._leaving = False
        self._workflow = workflow
        self._to_close: frozenset[RequestKey] = frozenset()
        self._doubt = claim.recovered
        """Return whether the run may have been asked to end after the running step."""

    def resumed_with(self, answers: Mapping[RequestKey, Answer]) -> None:
        """Record the answers that the run resumes with: their requests must be closed before it is suspended."""
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
        if any(request.kind == SIGNAL for request in commit.opened):
            await self._match_signals()
        if (self._doubt or self.draining) and _ends_a_step(commit):
            await self._end_if_asked(commit)
        if self._leaving and not self.drains and commit.standing is None and _ends_a_step(commit):
            raise ClaimLost(run=self.run)

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
        found = await in_thread(cancellation.end_after_step, self.lease, after, begun, drained=drained)
        self.draining = found == "waits" or self._leaving
        if found == "ended":
            raise ClaimLost(run=self.run)

    async def end_before_steps(self) -> None:
        """End here (``ClaimLost``) if someone asked the run to end after a step: no step runs any more."""
        if await in_thread(cancellation.end_after_step, self.lease):
            raise ClaimLost(run=self.run)

    async def drained(self) -> None:
        """End here (``ClaimLost``) if the worker stops or a pause is still requested, else continue: no step runs."""
        self.draining = False
        if await in_thread(cancellation.end_after_step, self.lease, begun=None) or self._leaving:
            raise ClaimLost(run=self.run)

    def _show(self, step: str, text: str) -> None:
        pubsub.streamed_text.add(self.run, step, text)


def _ends_a_step(commit: Commit) -> bool:
    """Say whether nothing of the step that ran is lost if the run ends with this commit."""
    ends = commit.checkpoint is not None and commit.checkpoint.reason in {Reason.STEP, Reason.FAILURE}
    return ends or commit.standing is not None
