"""The ports of the ground. Implementations pass the shared conformance suite; callers know only these.

Shared storage: any number of runs, workflows, processes and machines may use one storage. Every method is
scoped by run; nothing here ever reads or writes another run's rows. Two drivers of one run without claims are
told apart by ``Conflict`` (unique ``n``); with claims the loser gets ``ClaimLost``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, CheckpointFilter, CheckpointInfo, Claim, Commit, Event


@runtime_checkable
class CheckpointStorage(Protocol):
    """Keeps checkpoints. What goes in and what comes out are copies: nobody shares state by accident."""

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """Store it durably and return its id. ``Conflict`` if the run already has this ``n``."""

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """Return it. ``NotFound`` (also when it belongs to another run), ``Damaged``, ``Incompatible``."""

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """Return the run's checkpoint with the highest ``n``, None if it has none. One indexed read.

        ``Damaged`` and ``Incompatible`` if that one cannot be read: it never falls back to an older one.
        """

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """Newest first, those with ``n < before`` that ``where`` admits, at most ``limit``. Reads no content."""

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """All ids of the run, newest first."""

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """Remove one, whichever it is; False if there was none. Shared content stays until ``prune``."""

    async def prune(self, run: RunId, checkpoints: Collection[CheckpointId]) -> int:
        """Remove several, all or none, and the content nobody needs any more; returns how many were there.

        ``Conflict`` (nothing is removed) if one is what the run would continue from: its head, or its newest
        clean one. Ids that are not this run's are passed over. Whatever another checkpoint shares stays, also
        one of a fork, and also one that is being committed meanwhile.
        """

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """Mark it as not to be read (``clean`` false, ``flaw`` says why): ``load`` raises ``Damaged``. ``NotFound``."""

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """Name it, or take its name away. What has a label is pinned: retention keeps it. ``NotFound``.

        ``ValueError`` for a label that is blank or longer than 200 characters, here and in ``save``.
        """

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """Start ``new_run`` (n = 1, reason fork, parent = the chosen one) with the same content.

        Raises what ``load`` raises, and ``Conflict`` if ``new_run`` exists.
        """


@runtime_checkable
class Journal(Protocol):
    """Keeps whole commits: checkpoint, requests, events, effects and standing, together or not at all."""

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """Write it in one transaction and return the run's last event seq.

        Assigns the events' ``seq``. ``ClaimLost`` if ``claim`` is gone or expired (nothing is written),
        ``Conflict`` for a second checkpoint with the same ``n``. Without a claim the run is created if new.
        """

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """Events with ``seq > after``, in order."""

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """Answers that were accepted for pending requests and not yet taken by the engine."""


@runtime_checkable
class Claims(Protocol):
    """Who may drive which run. All times are the storage's own clock."""

    async def claim(self, run: RunId, *, worker: str, ttl: float) -> Claim | None:
        """Take the run for ``ttl`` seconds if it is due and nobody live holds it; else None."""

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """Extend it. ``ClaimLost`` if it is gone or expired."""

    async def release(self, claim: Claim) -> None:
        """Give it back; the run stays as due as it was. No error if it was already lost."""

    async def due(self, *, limit: int = 500) -> Sequence[RunId]:
        """Runs that should be driven now: ready and unclaimed, claim expired, or their wake time has come."""


@runtime_checkable
class Recorder(Protocol):
    """What a running engine may do to the world. Bound to one run; the runner's carries its claim."""

    async def commit(self, commit: Commit) -> None:
        """Make it durable; returns only once it is. ``ClaimLost`` ends the drive."""

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Wait until answers arrive that were not handed out yet, and return them. May wait for ever."""

    def stream(self, step: str, text: str) -> None:
        """Show text while it is made. Never stored, may be dropped."""

    def now(self) -> datetime:
        """The storage's clock, aware, UTC."""
