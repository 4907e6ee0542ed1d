"""What a storage remembers of runs whose checkpoints are big: of each its latest one, as it was written.

A chunk is left out of a commit only if the checkpoint that brought it is still there: the commit itself looks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from checkpoints.encoding import Encoded, Known
from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import Commit

RUNS = 512
"""Runs remembered at most; the one that was written longest ago is forgotten first."""
BUDGET = 64 * 1024 * 1024
"""Bytes of state, as JSON, remembered at most."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A checkpoint that is stored."""

    id: CheckpointId
    known: Known
    size: int


class Heads:
    """Heads by run. For any thread."""

    def __init__(self, *, runs: int = RUNS, budget: int = BUDGET) -> None:
        self._runs = runs
        self._budget = budget
        self._size = 0
        self._heads: OrderedDict[RunId, Head] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """Count the runs that are remembered."""
        return len(self._heads)

    def get(self, run: RunId) -> Head | None:
        """Return the run's head, None if nothing is known of it."""
        return self._heads.get(run)

    def learn(self, commit: Commit, encoded: Encoded | None) -> None:
        """Remember what a commit has stored; a run that is let go of is forgotten."""
        if commit.standing is not None:
            self.forget(commit.run)
        elif commit.checkpoint is not None and encoded is not None and encoded.known:
            self._put(commit.run, Head(id=commit.checkpoint.id, known=encoded.known, size=encoded.size))
        elif commit.checkpoint is not None:
            self.forget(commit.run)

    def forget(self, run: RunId) -> None:
        """Forget a run: its next checkpoint is written in full."""
        with self._lock:
            self._drop(run)

    def _put(self, run: RunId, head: Head) -> None:
        with self._lock:
            self._drop(run)
            self._heads[run] = head
            self._size += head.size
            while len(self._heads) > self._runs or self._size > self._budget:
                self._drop(next(iter(self._heads)))

    def _drop(self, run: RunId) -> None:
        head = self._heads.pop(run, None)
        if head is not None:
            self._size -= head.size
