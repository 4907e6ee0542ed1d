"""What the checks need besides the ports: people who answer, operators who cancel, and bytes that rot.

The ports say nothing of people, so to check the journal or the claims one provides a world around
the storage. For the base checks ``World(storage)`` will do.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import Json, Phase
from checkpoints.storage import CheckpointStorage


class World:
    """A storage and nothing else: enough for ``STORAGE``."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self.storage = storage


class StorageWorld(Protocol):
    """What ``STORAGE`` needs."""

    storage: Any
    """A ``CheckpointStorage``."""


class JournalWorld(StorageWorld, Protocol):
    """What ``JOURNAL`` and ``CLAIMS`` need. The storage is a ``Journal`` too, and for the latter ``Claims``."""

    async def answer(self, run: RunId, key: str, value: Json) -> None:
        """Answer a pending request as the person ``rosa``; what is parked becomes ready."""

    async def cancel(self, run: RunId) -> None:
        """End the run as an operator does: its claim ends with it."""

    async def phase(self, run: RunId) -> Phase:
        """Return what the run needs next."""

    async def closed_as(self, run: RunId, key: str) -> list[str]:
        """Return what became of the requests of that key, oldest first: ``taken``, ``withdrawn``, or open: empty."""

    async def request_ids(self, run: RunId) -> list[str]:
        """Return the ids of the run's requests, oldest first."""

    async def effects(self, run: RunId) -> list[tuple[str, str, Json]]:
        """Return key, state and result of each recorded call, oldest first."""


class DamageWorld(StorageWorld, Protocol):
    """What ``DAMAGE`` needs."""

    async def damage(self, run: RunId, checkpoint: CheckpointId) -> None:
        """Change one byte of its stored content."""


class FailingWorld(StorageWorld, Protocol):
    """What ``FAILURES`` needs."""

    def failing(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager within which the database can neither read nor write checkpoints."""


class ChunkWorld(StorageWorld, Protocol):
    """What ``CHUNKS`` needs: a storage whose runs share content."""

    async def damage_chunk(self, run: RunId) -> None:
        """Change the bytes of one of the run's chunks."""

    async def lose_chunk(self, run: RunId) -> None:
        """Remove one of the run's chunks."""

    async def chunks(self, run: RunId) -> int:
        """Count the chunks of the family whose first run this is."""
