"""The ports of the storage layer. Implementations pass the shared conformance suite; callers know only these.

Shared storage: any number of runs, workflows, processes and machines may use one storage. Every method is scoped by
run; none ever reads or writes another run's rows. Where a storage offers ``Claims``, one worker at a time holds a run:
another gets ``Conflict`` before it starts, and one that lost its claim ``ClaimLost``. Without claims, two writers of
one run are detected by ``Conflict`` (unique ``n``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import repeat
from typing import Any, Protocol, runtime_checkable

from typing_extensions import get_protocol_members, is_protocol

from checkpoints.errors import Unsupported
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId
from checkpoints.records import (
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Claim,
    Commit,
    Event,
    Pairs,
    Phase,
    RunInfo,
    frozen,
)


class PortType(type(Protocol)):  # type: ignore[misc]
    """Makes ``isinstance`` ask an object for each name of a port, as a call does: a proxy has what it passes on.

    That of a plain protocol looks only at what an object has itself, from Python 3.12 on.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        if not is_protocol(cls):
            return super().__instancecheck__(instance)  # type: ignore[no-any-return]
        return all(map(hasattr, repeat(instance), get_protocol_members(cls)))


def missing_names(thing: object, port: type) -> list[str]:
    """Return the names of a port that an object lacks, in alphabetical order."""
    return sorted(name for name in get_protocol_members(port) if not hasattr(thing, name))


@runtime_checkable
class CheckpointStorage(Protocol, metaclass=PortType):
    """Stores checkpoints. Arguments and results are copies: no state is shared by accident."""

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """Store a checkpoint durably and return its id. ``Conflict`` if the run already has this ``n``."""

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """Return a checkpoint. ``NotFound`` (also when it belongs to another run), ``Damaged``, ``Incompatible``."""

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """Return the run's checkpoint with the highest ``n``, None if it has none. One indexed read.

        ``Damaged`` and ``Incompatible`` if that one cannot be read: it never falls back to an older one.
        """

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """Return those with ``n < before`` that match ``where``, newest first, at most ``limit``. Reads no content."""

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """Return all ids of the run, newest first."""

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """Delete any checkpoint; False if there was none. Shared content stays until ``prune``."""

    async def prune(self, run: RunId, checkpoints: Collection[CheckpointId]) -> int:
        """Delete several, all or none, and the content that is no longer needed; return how many there were.

        ``Conflict`` (nothing is removed) if one is what the run would continue from: its head, or its newest clean one.
        Ids of other runs are ignored. Content shared with another checkpoint stays, also one of a fork, and also one
        that is being committed at the same time.
        """

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """Mark it as unreadable (``clean`` false, ``flaw`` says why): ``load`` raises ``Damaged``. ``NotFound``."""

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """Set or remove its label. A labelled checkpoint is pinned: retention keeps it. ``NotFound``.

        ``ValueError`` for a label that is blank or longer than 200 characters, here and in ``save``.
        """

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """Start ``new_run`` with the same content and return its checkpoint (n = 1, reason fork, parent = the chosen
        one).

        Raises what ``load`` raises, and ``Conflict`` if ``new_run`` exists.
        """


@runtime_checkable
class Journal(Protocol, metaclass=PortType):
    """Stores whole commits: checkpoint, requests, events, effects and standing, together or not at all."""

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """Write a commit in one transaction and return the run's last event seq.

        Assigns the events' ``seq``. ``ClaimLost`` if ``claim`` is gone or expired (nothing is written), ``Conflict``
        for a second checkpoint with the same ``n``, ``AlreadyAnswered`` for another answer to a request that has one.
        Without a claim the run is created if new; a standing then leaves it to workers, else it is its maker's own (see
        ``due``). A claim with less than half of its time left is extended.
        """

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """Return events with ``seq > after``, in order."""

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """Return answers that were accepted for pending requests and not yet taken by the engine."""


@runtime_checkable
class Runs(Protocol, metaclass=PortType):
    """Lists the runs of a storage, and deletes one with everything it has."""

    async def list_runs(
        self,
        *,
        workflow: WorkflowId | None = None,
        phase: Phase | None = None,
        before: RunInfo | None = None,
        limit: int = 50,
    ) -> Sequence[RunInfo]:
        """Return runs, newest first, at most ``limit``, those of ``workflow`` and in ``phase`` if given; reads no
        content.

        ``before``: the last one of the previous page.
        """

    async def delete_run(self, run: RunId, *, force: bool = False) -> bool:
        """Delete checkpoints, events, questions, answers and recorded calls of a run; False if there is none.

        ``Conflict`` (nothing is removed) while a worker has it or it has not ended, unless ``force``: its worker then
        gets ``ClaimLost``. Content that a fork shares stays.
        """


@runtime_checkable
class FindsRuns(Protocol, metaclass=PortType):
    """Knows whose a checkpoint is: its id is unique in the whole storage."""

    async def run_of(self, checkpoint: CheckpointId) -> RunId | None:
        """Return the run of a checkpoint, None if there is no such checkpoint. One indexed read, of no content."""


@runtime_checkable
class RemembersAnswers(Protocol, metaclass=PortType):
    """A journal that keeps earlier answers. Without it, the key of a late answer is unknown."""

    async def read_past_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """Return the last answer that each of the run's requests got, whether or not the engine has taken it."""


@frozen
class Serves:
    """The runs of ``workflows``, without those of ``others``: (workflow, version) that another worker has loaded.

    ``limits``: workflow -> how many of its runs may have a live claim at once, in all workers.
    """

    workflows: tuple[str, ...]
    others: Pairs = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    def without(self, workflows: Collection[str]) -> Serves:
        """Return it without these workflows."""
        return replace(self, workflows=tuple(name for name in self.workflows if name not in workflows))


@runtime_checkable
class Claims(Protocol, metaclass=PortType):
    """Which worker may run which run. All times are the storage's own clock."""

    async def claim(self, run: RunId, *, worker: str, ttl: float) -> Claim | None:
        """Return a claim of the run for ``ttl`` seconds if it is due and has no live claim; else None.

        None, too, while another transaction has the run's row: ``due`` finds it again.
        """

    async def claim_due(
        self,
        *,
        worker: str,
        ttl: float,
        limit: int,
        runs: Sequence[RunId] | None = None,
        serves: Serves | None = None,
    ) -> Sequence[Claim]:
        """Return claims of at most ``limit`` runs that are due and have no live claim, in one transaction.

        Those of the highest priority come first, of equals the one that has been ready longest, and no crash suspect;
        a run that its time woke, or whose worker has gone, has the lowest priority. Callers at the same time get
        different runs and do not wait for one another. Each claim has the run's ``facts``, unless they cannot be read.
        ``runs``: only of these. ``serves``: only those whose code the worker has, and of a workflow no more than its
        limit leaves places for; where another worker is taking these places now, none.
        """

    async def take(
        self, run: RunId, *, worker: str, ttl: float, head: CheckpointId | None, stopped: bool = False
    ) -> Claim:
        """Return a claim of the run, due or not, for a caller that runs it now from its newest checkpoint ``head``.

        ``Conflict`` while it has a live claim (``facts``: worker, expires), if its newest checkpoint is another one
        (``facts``: head), or if a person paused or cancelled it, unless ``stopped``. ``NotFound``.
        """

    async def begin(self, commit: Commit, *, worker: str, ttl: float) -> Claim:
        """Write a run's first checkpoint and return a claim of it, in one transaction, so that no other worker can take
        it.

        ``Conflict`` if it has a checkpoint or a live claim. The run is created if it is new.
        """

    async def renew(self, claim: Claim, *, ttl: float) -> Claim:
        """Return the extended claim. ``ClaimLost`` if it is gone or expired."""

    async def release(self, claim: Claim) -> None:
        """Release it; the run stays as due as it was. No error if it was already lost."""

    async def due(self, *, limit: int = 500) -> Sequence[RunId]:
        """Return runs that are due: ready and unclaimed, claim expired, or their wake time has come; in the order of
        ``claim_due``.

        Never its maker's own run: one that ``save``, ``begin``, ``fork`` or a commit without a standing created, until
        a commit without a claim leaves it to workers with a standing.
        """


def claims_of(storage: object) -> Claims | None:
    """Return what says who may drive a storage's runs; None where nothing does. A manager's is its storage's.

    ``Unsupported`` for a storage that takes runs, but lacks another method that keeps them.
    """
    if isinstance(storage, Claims):
        return storage
    if hasattr(storage, "take"):
        lacks = ", ".join(missing_names(storage, Claims))
        raise Unsupported(f"{type(storage).__name__} has take(), but no {lacks}: offer all of Claims, or nothing of it")
    found: Claims | None = getattr(storage, "claims", None)
    return found


@runtime_checkable
class Recorder(Protocol, metaclass=PortType):
    """What a running engine may do to the world. Bound to one run; a worker's carries its claim."""

    async def commit(self, commit: Commit) -> None:
        """Store a commit durably; returns only once it is. ``ClaimLost`` ends the drive."""

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Return answers that were not handed out yet, waiting without limit for the first."""

    def stream(self, step: str, text: str) -> None:
        """Show streamed text. Never stored, may be dropped."""

    def now(self) -> datetime:
        """Return the storage's time, aware, UTC."""


@runtime_checkable
class Draining(Protocol, metaclass=PortType):
    """A ``Recorder`` whose run may be asked to stop between two steps. Optional."""

    drains: bool
    """Set by an engine that checks ``draining``; without one the run ends with the first step that does."""
    draining: bool
    """No further step is to start; once none runs, ``drained`` is to be awaited."""

    async def drained(self) -> None:
        """End the run here, with ``ClaimLost``; or return, if that is no longer requested."""


@runtime_checkable
class Confirming(Protocol, metaclass=PortType):
    """A ``Recorder`` that knows whether its claim is still valid. Optional."""

    async def confirm(self) -> None:
        """Return once the claim is certain to be held: at once, unless the process was stopped or the machine slept.

        ``ClaimLost`` if another worker may have it. Called before any code of a step or a call starts.
        """
