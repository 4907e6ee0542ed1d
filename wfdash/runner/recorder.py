"""A ``Recorder`` that writes under a claim and rings the bells after each commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from checkpoints.recorder import BoundRecorder, utc_now
from checkpoints.records import Claim, Commit
from checkpoints.storage import Journal
from wfdash import nudge


class ClaimedRecorder(BoundRecorder):
    """What the engine may do to the world while this worker holds the run."""

    def __init__(
        self, journal: Journal, claim: Claim, workflow: str, *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(journal, claim.run, claim, stream=self._show, clock=clock)
        self.lease = claim
        self._workflow = workflow

    async def commit(self, commit: Commit) -> None:
        """Write it in one transaction, then tell whoever watches; ``ClaimLost`` ends the drive."""
        await super().commit(commit)
        nudge.runs_moved.ring(self.run, self.seq)
        if commit.opened or commit.closed:
            nudge.inbox_moved.ring(self._workflow)

    def _show(self, step: str, text: str) -> None:
        nudge.text_streamed.ring(self.run, step, text)
