"""``CheckpointManager``: a storage with a policy (when to save, what to keep), accepted wherever a storage is.

What a resume requires is always saved: pauses, calls, failures, ends, labels, and every checkpoint that comes with
requests, answers taken, effects or a standing. Only plain step checkpoints may be left out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from checkpoints.claims import give_back, new_holder, take
from checkpoints.config import CheckpointConfig, Needs, PrunePlan, decide
from checkpoints.errors import Damaged, Incompatible, InvalidConfig, Unsupported
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_checkpoint_id
from checkpoints.records import (
    ENDED,
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Claim,
    Commit,
    Event,
    Json,
    Phase,
    Reason,
    Record,
    RunInfo,
    Standing,
)
from checkpoints.storage import (
    CheckpointStorage,
    Claims,
    FindsRuns,
    Journal,
    PortType,
    RemembersAnswers,
    Runs,
    claims_of,
)

__all__ = ["CheckpointConfig", "CheckpointManager", "KnowsNeeds", "Recovery", "Skipped"]

log = logging.getLogger(__name__)

PRUNE_EVERY = 16
"""Saves of a run between two prunings; suspending and ending prune too."""
PAGE = 500
"""Checkpoints listed at once while a plan is made."""


@runtime_checkable
class KnowsNeeds(Protocol, metaclass=PortType):
    """A storage that knows what depends on a run's checkpoints. Without it every run counts as open."""

    async def read_needs(self, run: RunId) -> Needs:
        """Return whether the run has ended, and which of its checkpoints were forked."""


class Skipped(Record):
    """A checkpoint that could not be read, and why."""

    id: CheckpointId
    n: int
    why: str


class Recovery(Record):
    """The checkpoint a run continues from, and the newer ones that could not be read."""

    checkpoint: Checkpoint
    """The run's head. Where something was skipped: a new one (reason restore) whose parent is the valid one."""
    skipped: tuple[Skipped, ...] = ()


class CheckpointManager:
    """``CheckpointStorage`` and ``Journal`` over another storage. For one event loop.

    Over a storage that is no journal, commits keep their checkpoint and drop the rest.
    """

    def __init__(
        self, storage: CheckpointStorage, config: CheckpointConfig | None = None, *, prune_every: int = PRUNE_EVERY
    ) -> None:
        """``InvalidConfig`` over another manager: a storage has one policy.

        ``prune_every``: after how many saves of a run its policy is applied, besides at suspending and ending.

        Until then there may be more than the policy keeps; with 1 there never are, at the cost of a pruning per save.
        """
        if isinstance(storage, CheckpointManager):
            raise InvalidConfig("storage is a CheckpointManager: give the storage below it, manager.storage")
        self.storage = storage
        self.config = config or CheckpointConfig()
        self._prune_every = prune_every
        self._journal = storage if isinstance(storage, Journal) else None
        self.claims: Claims | None = claims_of(storage)
        """The storage's claims, None where it offers none."""
        self._last: dict[RunId, tuple[int, CheckpointId]] = {}
        self._saves: dict[RunId, int] = {}

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``. The policy may leave out the checkpoint, never its events."""
        chosen = self._chosen(commit)
        try:
            seq = await self._commit(chosen, claim)
        except BaseException:
            self._last.pop(commit.run, None)
            raise
        await self._after_commit(chosen.checkpoint, commit.run, commit.standing)
        return seq

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``; none over a storage that is no journal."""
        return [] if self._journal is None else await self._journal.read_events(run, after=after, limit=limit)

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``; none over a storage that is no journal."""
        return {} if self._journal is None else await self._journal.read_answers(run)

    async def read_past_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``RemembersAnswers.read_past_answers``; none over a storage without it."""
        return await self.storage.read_past_answers(run) if isinstance(self.storage, RemembersAnswers) else {}

    async def begin(self, commit: Commit, *, worker: str, ttl: float) -> Claim:
        """See ``Claims.begin``. ``Unsupported`` over a storage without claims."""
        if self.claims is None:
            raise Unsupported("the storage has no claims: commit without one")
        claim = await self.claims.begin(commit, worker=worker, ttl=ttl)
        await self._after_commit(commit.checkpoint, commit.run, commit.standing)
        return claim

    def last_saved(self, run: RunId) -> CheckpointId | None:
        """Return the checkpoint that the run's next one follows; None where that is simply the one before."""
        return None if self.config.when == "step" else self._last.get(run, (0, None))[1]

    # CheckpointStorage

    async def save(self, checkpoint: Checkpoint, *, facts: Mapping[str, Json] | None = None) -> CheckpointId:
        """See ``CheckpointStorage.save``. An explicit save is always stored: no policy but pruning.

        ``facts`` replace those of the checkpoint; ``InvalidValue`` for more than 4,000 bytes of JSON.
        """
        if facts is not None:
            checkpoint = checkpoint.model_copy(update={"facts": dict(facts)})
        saved = await self.storage.save(checkpoint)
        await self._after_commit(checkpoint, checkpoint.run, None)
        return saved

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        return await self.storage.load(run, checkpoint)

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        return await self.storage.get_latest(run)

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50, where: CheckpointFilter | None = None
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        return await self.storage.list_checkpoints(run, before=before, limit=limit, where=where)

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        return await self.storage.list_checkpoint_ids(run)

    async def run_of(self, checkpoint: CheckpointId) -> RunId | None:
        """See ``FindsRuns.run_of``. ``Unsupported`` over a storage without it."""
        if not isinstance(self.storage, FindsRuns):
            raise Unsupported("the storage cannot find a checkpoint without its run: give the run's id")
        return await self.storage.run_of(checkpoint)

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        return await self.storage.delete(run, checkpoint)

    async def quarantine(self, run: RunId, checkpoint: CheckpointId, reason: str) -> None:
        """See ``CheckpointStorage.quarantine``."""
        await self.storage.quarantine(run, checkpoint, reason)

    async def set_label(self, run: RunId, checkpoint: CheckpointId, label: str | None) -> None:
        """See ``CheckpointStorage.set_label``."""
        await self.storage.set_label(run, checkpoint, label)

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        return await self.storage.fork(run, checkpoint, new_run)

    # Runs

    async def list_runs(
        self,
        *,
        workflow: WorkflowId | None = None,
        phase: Phase | None = None,
        before: RunInfo | None = None,
        limit: int = 50,
    ) -> Sequence[RunInfo]:
        """See ``Runs.list_runs``. ``Unsupported`` over a storage without it."""
        return await self._runs().list_runs(workflow=workflow, phase=phase, before=before, limit=limit)

    async def delete_run(self, run: RunId, *, force: bool = False) -> bool:
        """See ``Runs.delete_run``. ``Unsupported`` over a storage without it."""
        return await self._runs().delete_run(run, force=force)

    def _runs(self) -> Runs:
        if not isinstance(self.storage, Runs):
            raise Unsupported("the storage keeps no list of runs: it has no list_runs() and delete_run()")
        return self.storage

    # Retention

    async def plan(self, run: RunId, *, now: datetime | None = None) -> PrunePlan:
        """Return what ``prune`` would remove, and for each checkpoint why it is kept or removed. Changes nothing."""
        infos: list[CheckpointInfo] = []
        while page := await self.storage.list_checkpoints(run, before=infos[-1].n if infos else None, limit=PAGE):
            infos.extend(page)
        needs = await self.storage.read_needs(run) if isinstance(self.storage, KnowsNeeds) else Needs()
        return decide(infos, self.config, needs, now or datetime.now(UTC))

    async def prune(
        self, run: RunId, checkpoints: Collection[CheckpointId] | None = None, *, now: datetime | None = None
    ) -> int:
        """Remove what the policy does not keep, or the given ones instead, and return how many that were."""
        if checkpoints is None:
            if not self.config.limited:
                return 0
            checkpoints = [decision.checkpoint.id for decision in (await self.plan(run, now=now)).removed]
        return await self.storage.prune(run, checkpoints) if checkpoints else 0

    async def tidy(self, run: RunId) -> None:
        """Prune after a save. A failure is only logged, because the save is done: the next save retries."""
        try:
            await self.prune(run)
        except Exception:
            log.exception("Could not prune run %s; it will be retried", run)

    # Recovery

    async def recover(self, run: RunId, *, accept_older: bool = False) -> Recovery | None:
        """Return what the run continues from: its newest checkpoint; None if it has none at all.

        Unreadable ones are quarantined. If there are such, ``Damaged`` names them and the valid one before them;
        ``accept_older`` makes that one the head again. ``Damaged``, too, if none can be read: a run never falls back,
        least of all to its start, unless that is requested. ``Incompatible`` for a newer format.
        """
        good, skipped = await self._newest_good(run)
        if good is None and not skipped:
            return None
        if good is None:
            raise Damaged("no checkpoint of this run can be read: restore the storage from a backup", run=run)
        if not skipped:
            return Recovery(checkpoint=good)
        if not accept_older:
            ns = ", ".join(str(one.n) for one in skipped)
            text = f"checkpoint {ns} cannot be read, {good.n} can: recover(run, accept_older=True) continues from there"
            raise Damaged(text, run=run, checkpoint=skipped[0].id, older=good.id, skipped=skipped)
        (newest,) = await self.storage.list_checkpoints(run, limit=1)
        return Recovery(checkpoint=await self._restore(good, newest), skipped=tuple(skipped))

    async def _newest_good(self, run: RunId) -> tuple[Checkpoint | None, list[Skipped]]:
        skipped: list[Skipped] = []
        before: int | None = None
        while page := await self.storage.list_checkpoints(run, before=before):
            for info in page:
                try:
                    return await self.storage.load(run, info.id), skipped
                except Incompatible:
                    raise
                except Damaged as error:
                    skipped.append(Skipped(id=info.id, n=info.n, why=str(error)))
                    if info.clean:
                        await self.storage.quarantine(run, info.id, str(error))
            before = page[-1].n
        return None, skipped

    async def restore(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """Restore the run to one of its checkpoints and return its new head (reason restore), with the same content.

        History stays: nothing is removed. Questions that were pending there are asked again, all others are closed.
        Nothing runs; a worker that knows the workflow, or the next ``run``, continues from there. External effects of
        later steps are not undone. ``NotFound``, ``Damaged``; ``Conflict`` while a worker has the run.
        """
        good = await self.storage.load(run, checkpoint)
        (newest,) = await self.storage.list_checkpoints(run, limit=1)
        return await self._restore(good, newest)

    async def _restore(self, good: Checkpoint, newest: CheckpointInfo) -> Checkpoint:
        """Make a valid checkpoint the head again, under a claim where the storage has them, and return the new head."""
        changes = {"id": new_checkpoint_id(), "n": newest.n + 1, "parent": good.id, "reason": Reason.RESTORE}
        head = good.model_copy(update={**changes, "label": None, "created": datetime.now(UTC)})
        event = EventKind.RUN_RESTORED.draft(by=None, checkpoint=good.id, n=good.n)
        claim = await self._take_claim(good.run, newest.id)
        commit = Commit(run=good.run, checkpoint=head, events=(event,), opened=good.requests, restores=True)
        try:
            await self._commit(commit.model_copy(update={"standing": Standing(phase=Phase.READY)}), claim)
        except BaseException:
            if self.claims is not None and claim is not None:
                await give_back(self.claims, claim)
            raise
        self._last.pop(good.run, None)
        return await self.storage.load(good.run, head.id)

    async def _take_claim(self, run: RunId, head: CheckpointId) -> Claim | None:
        if self.claims is None:
            return None
        return await take(self.claims, run, head, new_holder(), stopped=True)

    # Policy

    async def _commit(self, commit: Commit, claim: Claim | None) -> int:
        if self._journal is not None:
            return await self._journal.commit(commit, claim=claim)
        if commit.checkpoint is not None:
            await self.storage.save(commit.checkpoint)
        return 0

    def _chosen(self, commit: Commit) -> Commit:
        checkpoint = commit.checkpoint
        if checkpoint is None:
            return commit
        n, id_ = self._last.get(checkpoint.run, (0, None))
        if not must_save(commit) and id_ is not None and not self._wanted(checkpoint.n - n):
            return commit.model_copy(update={"checkpoint": None})
        if self.config.when == "step" or id_ is None or checkpoint.parent is None:
            return commit
        return commit.model_copy(update={"checkpoint": checkpoint.model_copy(update={"parent": id_})})

    def _wanted(self, distance: int) -> bool:
        when = self.config.when
        return when == "step" or (when != "pause" and distance >= when)

    async def _after_commit(self, checkpoint: Checkpoint | None, run: RunId, standing: Standing | None) -> None:
        if checkpoint is not None:
            self._last[run] = (checkpoint.n, checkpoint.id)
            self._saves[run] = self._saves.get(run, 0) + 1
        ended = standing is not None and standing.phase in ENDED
        if ended or (self.config.while_open == "prune" and self._is_time(checkpoint, run, standing)):
            await self.tidy(run)
        if standing is not None:
            self._last.pop(run, None)
            self._saves.pop(run, None)

    def _is_time(self, checkpoint: Checkpoint | None, run: RunId, standing: Standing | None) -> bool:
        return checkpoint is not None and (standing is not None or self._saves[run] % self._prune_every == 0)


def must_save(commit: Commit) -> bool:
    """Return whether a resume would lose something if this commit's checkpoint were left out."""
    checkpoint = commit.checkpoint
    plain = checkpoint is not None and checkpoint.reason is Reason.STEP and checkpoint.label is None
    return not plain or bool(commit.opened or commit.closed or commit.effects or commit.standing)
