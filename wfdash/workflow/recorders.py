"""Where a run's commits go: one ``Recorder`` over whatever the caller has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from checkpoints.ids import RequestKey
from checkpoints.records import Answer, Checkpoint, Commit, EventDraft
from checkpoints.storage import Recorder
from wfdash.workflow.errors import InvalidCall


class Saves(Protocol):
    """A storage or a manager: keeps checkpoints."""

    async def save(self, checkpoint: Checkpoint) -> Any:
        """Store it durably."""


class Keeps(Protocol):
    """A journal: keeps whole commits."""

    async def commit(self, commit: Commit) -> Any:
        """Store it durably."""


class OwnRecorder:
    """No storage: the application owns ``outcome.checkpoint``."""

    async def commit(self, commit: Commit) -> None:
        """Keep nothing."""

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Wait for ever: answers come with the next call of ``run``."""
        await asyncio.get_running_loop().create_future()
        return {}

    def stream(self, step: str, text: str) -> None:
        """Show nothing."""

    def now(self) -> datetime:
        """The computer's clock."""
        return datetime.now(UTC)


class SavingRecorder(OwnRecorder):
    """Keeps checkpoints in a storage or manager; events and effects go nowhere."""

    def __init__(self, storage: Saves) -> None:
        self._storage = storage

    async def commit(self, commit: Commit) -> None:
        """Save the checkpoint, if there is one."""
        if commit.checkpoint is not None:
            await self._storage.save(commit.checkpoint)


class JournalRecorder(OwnRecorder):
    """Keeps whole commits in a journal, without a claim."""

    def __init__(self, journal: Keeps) -> None:
        self._journal = journal

    async def commit(self, commit: Commit) -> None:
        """Write it as it is."""
        await self._journal.commit(commit)


class Tap:
    """A recorder that also shows every committed event, with the checkpoint that is current then."""

    def __init__(self, inner: Recorder, show: Callable[[EventDraft, Checkpoint | None], None]) -> None:
        self._inner = inner
        self._show = show
        self._checkpoint: Checkpoint | None = None

    async def commit(self, commit: Commit) -> None:
        """Commit first, then show."""
        await self._inner.commit(commit)
        self._checkpoint = commit.checkpoint or self._checkpoint
        for event in commit.events:
            self._show(event, self._checkpoint)

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Those of the inner recorder."""
        return await self._inner.answers()

    def stream(self, step: str, text: str) -> None:
        """Show streamed text as an event that is not stored."""
        self._inner.stream(step, text)
        self._show(EventDraft(kind="stream", step=step, data={"text": text}), self._checkpoint)

    def now(self) -> datetime:
        """The inner recorder's clock."""
        return self._inner.now()


def recorder_for(storage: object) -> Recorder:
    """Return a recorder over a Recorder, Journal, CheckpointStorage, CheckpointManager, or None."""
    if storage is None:
        return OwnRecorder()
    if isinstance(storage, Recorder):
        return storage
    if hasattr(storage, "commit"):
        return JournalRecorder(storage)
    if hasattr(storage, "save"):
        return SavingRecorder(storage)
    raise InvalidCall(f"storage= needs a save() or commit() method, {type(storage).__name__} has neither")
