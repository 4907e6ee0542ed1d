"""A ``Recorder`` that writes under a claim and rings the bells after each commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from checkpoints.orm import DatabaseStorage

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Claim, Commit
from wfdash import nudge

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0


class ClaimedRecorder:
    """What the engine may do to the world while this worker holds the run."""

    def __init__(self, storage: DatabaseStorage, claim: Claim, workflow: str) -> None:
        self.claim = claim
        self._storage = storage
        self._workflow = workflow
        self._wake = asyncio.Event()
        self._handed_out: set[RequestKey] = set()

    async def commit(self, commit: Commit) -> None:
        """Write it in one transaction; ``ClaimLost`` ends the drive."""
        seq = await self._storage.commit(commit, claim=self.claim)
        # A key that was taken may be asked again under the same name after a restore.
        self._handed_out.difference_update(commit.closed)
        nudge.runs_moved.ring(commit.run, seq)
        if commit.opened or commit.closed:
            nudge.inbox_moved.ring(self._workflow)

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Wait for answers that were not handed out yet: woken by the bell, else looked for every second."""
        while True:
            self._wake.clear()
            accepted = await self._storage.read_answers(self.claim.run)
            fresh = {key: answer for key, answer in accepted.items() if key not in self._handed_out}
            if fresh:
                self._handed_out.update(fresh)
                return fresh
            try:
                await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)
            except TimeoutError:
                continue

    def hand_out(self, keys: Mapping[RequestKey, Answer]) -> None:
        """Note answers that the engine was given with its input."""
        self._handed_out.update(keys)

    def wake(self) -> None:
        """Look for answers now. Call it on the recorder's own loop."""
        self._wake.set()

    def stream(self, step: str, text: str) -> None:
        """Show text while it is made."""
        nudge.text_streamed.ring(self.claim.run, step, text)

    def now(self) -> datetime:
        """The clock that timers are set by."""
        return datetime.now(UTC)
