"""A ``Recorder`` that writes under a claim and rings the bells after each commit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from checkpoints.errors import ClaimLost
from checkpoints.recorder import BoundRecorder, utc_now
from checkpoints.records import Claim, Commit, Reason
from checkpoints.storage import Journal
from wfdash import nudge, tracing
from wfdash.runner.held import in_thread
from wfdash.workflow.signals import KIND

log = logging.getLogger(__name__)


class ClaimedRecorder(BoundRecorder):
    """What the engine may do to the world while this worker holds the run."""

    def __init__(
        self, journal: Journal, claim: Claim, workflow: str, *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(journal, claim.run, claim, stream=self._show, clock=clock)
        self.lease = claim
        self.trace: tracing.Trace = tracing.UNTRACED
        self._workflow = workflow
        self._doubt = claim.recovered
        """Whether somebody may have asked that the run end after the step that runs."""

    async def commit(self, commit: Commit) -> None:
        """Write it in one transaction, then tell whoever watches; ``ClaimLost`` ends the drive."""
        await super().commit(commit)
        self.trace.saw(commit)
        nudge.runs_moved.ring(self.run, self.seq)
        if commit.opened or commit.closed:
            nudge.inbox_moved.ring(self._workflow)
        if any(request.kind == KIND for request in commit.opened):
            await self._match_signals()
        if self._doubt and _ends_a_step(commit):
            await self._end_if_asked(commit)

    def wake(self) -> None:
        """Look for answers, and at the next step's end for whether the run is to end there."""
        self._doubt = True
        super().wake()

    async def _match_signals(self) -> None:
        """Look whether the run keeps what has just begun to be waited for; the sweep does if this fails."""
        from wfdash.desk import signals

        try:
            await in_thread(signals.match_signals, self.run)
        except Exception:
            log.exception("Could not look for signals of run %s; trying again", self.run)

    async def _end_if_asked(self, commit: Commit) -> None:
        # Servers import their runner before Django has its models.
        from wfdash.desk import ending

        self._doubt = False
        begun = frozenset(event.step for event in commit.events if event.kind == "step.started" and event.step)
        after = (commit.checkpoint.step if commit.checkpoint else None) or ""
        if await in_thread(ending.end_after_step, self.lease, after, begun):
            raise ClaimLost(run=self.run)

    def _show(self, step: str, text: str) -> None:
        nudge.text_streamed.ring(self.run, step, text)


def _ends_a_step(commit: Commit) -> bool:
    """Say whether nothing of the step that ran is lost if the run ends with this commit."""
    ends = commit.checkpoint is not None and commit.checkpoint.reason in {Reason.STEP, Reason.FAILURE}
    return ends or commit.standing is not None
