"""Cache of the latest big checkpoint of each run as it was encoded, so that unchanged chunks are not written again.

A commit leaves a chunk out only if the checkpoint that stored it still exists, which the commit itself checks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from checkpoints.content.encoder import Encoded, EncodedDict
from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import Commit

MAX_RUNS = 512
"""Runs in the cache at most; the least recently written is evicted first."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of state (as JSON) in the cache at most."""


@dataclass(frozen=True, kw_only=True)
class CachedEncoding:
    """The encoding of a stored checkpoint."""

    id: CheckpointId
    known: EncodedDict
    size: int


class EncoderCache:
    """Encodings by run; thread-safe."""

    def __init__(self, *, runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        self._runs = runs
        self._budget = max_bytes
        self._size = 0
        self._cached: OrderedDict[RunId, CachedEncoding] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """Return the number of cached runs."""
        return len(self._cached)

    def get(self, run: RunId) -> CachedEncoding | None:
        """Return the run's cached encoding, None if there is none."""
        return self._cached.get(run)

    def update(self, commit: Commit, encoded: Encoded | None) -> None:
        """Cache what a commit has stored; a run whose drive ends is evicted."""
        if commit.standing is not None:
            self.forget(commit.run)
        elif commit.checkpoint is not None and encoded is not None and encoded.known is not None:
            self._put(commit.run, CachedEncoding(id=commit.checkpoint.id, known=encoded.known, size=encoded.size))
        elif commit.checkpoint is not None and commit.run in self._cached:
            self.forget(commit.run)

    def forget(self, run: RunId) -> None:
        """Evict a run: its next checkpoint is written in full."""
        with self._lock:
            self._drop(run)

    def _put(self, run: RunId, head: CachedEncoding) -> None:
        with self._lock:
            self._drop(run)
            self._cached[run] = head
            self._size += head.size
            while len(self._cached) > self._runs or self._size > self._budget:
                self._drop(next(iter(self._cached)))

    def _drop(self, run: RunId) -> None:
        head = self._cached.pop(run, None)
        if head is not None:
            self._size -= head.size
