"""When to save, what to keep, what to recover from: a storage with a policy, accepted wherever a storage is.

What a resume could not do without is always saved: pauses, calls, failures, ends, and every checkpoint that comes
with requests, answers taken, effects or a standing. Only plain step checkpoints may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import model_validator

from checkpoints.errors import Damaged, Incompatible, InvalidConfig
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, CheckpointInfo, Claim, Commit, Event, Reason, Record
from checkpoints.storage import CheckpointStorage, Journal

PRUNE_EVERY = 16
"""Saves of a run between two prunings; parking and ending prune too."""


class CheckpointConfig(Record):
    """The policy. The default saves every step and keeps everything."""

    when: Literal["step", "pause"] | int = "step"
    """``step``: each; ``pause``: only where it must be; a number: each so-many-th ``n``."""
    keep: int | None = None
    """Newest checkpoints to keep per run; labelled ones stay besides."""
    keep_age: timedelta | None = None
    """Older ones are removed, except the newest and labelled ones."""

    @model_validator(mode="after")
    def _consistent(self) -> CheckpointConfig:
        if isinstance(self.when, int) and self.when < 1:
            raise InvalidConfig(f"when={self.when}: give a number of at least 1, 'step' or 'pause'")
        if self.keep is not None and self.keep < 1:
            raise InvalidConfig(f"keep={self.keep}: a run needs its newest checkpoint, keep at least 1")
        if self.keep_age is not None and self.keep_age <= timedelta():
            raise InvalidConfig(f"keep_age={self.keep_age}: give a positive duration, or leave it out")
        return self


class Recovered(Record):
    """The newest good checkpoint of a run, and the newer ones that could not be read."""

    checkpoint: Checkpoint
    damaged: tuple[CheckpointInfo, ...] = ()


class CheckpointManager:
    """``CheckpointStorage`` and ``Journal`` over another storage. For one event loop.

    Over a storage that is no journal, commits keep their checkpoint and drop the rest.
    """

    def __init__(self, storage: CheckpointStorage, config: CheckpointConfig | None = None) -> None:
        self.storage = storage
        self.config = config or CheckpointConfig()
        self._last: dict[RunId, tuple[int, CheckpointId]] = {}
        self._saves: dict[RunId, int] = {}

    # Journal

    async def commit(self, commit: Commit, *, claim: Claim | None = None) -> int:
        """See ``Journal.commit``. The checkpoint may be left out by policy; its events never are."""
        chosen = self._chosen(commit)
        seq = await self._commit(chosen, claim)
        if chosen.checkpoint is not None:
            await self._saved(chosen.checkpoint, parked=commit.standing is not None)
        return seq

    async def read_events(self, run: RunId, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """See ``Journal.read_events``; none over a storage that is no journal."""
        return (
            await self.storage.read_events(run, after=after, limit=limit) if isinstance(self.storage, Journal) else []
        )

    async def read_answers(self, run: RunId) -> Mapping[RequestKey, Answer]:
        """See ``Journal.read_answers``; none over a storage that is no journal."""
        return await self.storage.read_answers(run) if isinstance(self.storage, Journal) else {}

    # CheckpointStorage

    async def save(self, checkpoint: Checkpoint) -> CheckpointId:
        """See ``CheckpointStorage.save``. Who saves by hand wants it saved: no policy but pruning."""
        saved = await self.storage.save(checkpoint)
        await self._saved(checkpoint, parked=False)
        return saved

    async def load(self, run: RunId, checkpoint: CheckpointId) -> Checkpoint:
        """See ``CheckpointStorage.load``."""
        return await self.storage.load(run, checkpoint)

    async def get_latest(self, run: RunId) -> Checkpoint | None:
        """See ``CheckpointStorage.get_latest``."""
        return await self.storage.get_latest(run)

    async def list_checkpoints(
        self, run: RunId, *, before: int | None = None, limit: int = 50
    ) -> Sequence[CheckpointInfo]:
        """See ``CheckpointStorage.list_checkpoints``."""
        return await self.storage.list_checkpoints(run, before=before, limit=limit)

    async def list_checkpoint_ids(self, run: RunId) -> Sequence[CheckpointId]:
        """See ``CheckpointStorage.list_checkpoint_ids``."""
        return await self.storage.list_checkpoint_ids(run)

    async def delete(self, run: RunId, checkpoint: CheckpointId) -> bool:
        """See ``CheckpointStorage.delete``."""
        return await self.storage.delete(run, checkpoint)

    async def fork(self, run: RunId, checkpoint: CheckpointId, new_run: RunId) -> Checkpoint:
        """See ``CheckpointStorage.fork``."""
        return await self.storage.fork(run, checkpoint, new_run)

    # Policy

    async def recover(self, run: RunId) -> Recovered | None:
        """Return the newest checkpoint that can be read; None if the run has none at all.

        ``Damaged`` if it has some but none is good: a run never falls back to its start by itself.
        """
        damaged: list[CheckpointInfo] = []
        before: int | None = None
        while page := await self.storage.list_checkpoints(run, before=before):
            for info in page:
                try:
                    return Recovered(checkpoint=await self.storage.load(run, info.id), damaged=tuple(damaged))
                except (Damaged, Incompatible):
                    damaged.append(info)
            before = page[-1].n
        if damaged:
            raise Damaged("no checkpoint of this run can be read: restore the storage from a backup", run=run)
        return None

    async def prune(self, run: RunId, *, now: datetime | None = None) -> int:
        """Remove what the policy does not keep and return how many that were."""
        if self.config.keep is None and self.config.keep_age is None:
            return 0
        infos: list[CheckpointInfo] = []
        while page := await self.storage.list_checkpoints(run, before=infos[-1].n if infos else None, limit=500):
            infos.extend(page)
        doomed = superfluous(infos, self.config, now or datetime.now(UTC))
        return sum([await self.storage.delete(run, info.id) for info in doomed])

    async def _commit(self, commit: Commit, claim: Claim | None) -> int:
        if isinstance(self.storage, Journal):
            return await self.storage.commit(commit, claim=claim)
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

    async def _saved(self, checkpoint: Checkpoint, *, parked: bool) -> None:
        run = checkpoint.run
        self._last[run] = (checkpoint.n, checkpoint.id)
        self._saves[run] = self._saves.get(run, 0) + 1
        if parked or self._saves[run] % PRUNE_EVERY == 0:
            await self.prune(run)
        if parked:
            del self._last[run], self._saves[run]


def must_save(commit: Commit) -> bool:
    """Say whether a resume would lose something if this commit's checkpoint were left out."""
    plain = commit.checkpoint is not None and commit.checkpoint.reason is Reason.STEP
    return not plain or bool(commit.opened or commit.closed or commit.effects or commit.standing)


def superfluous(infos: Sequence[CheckpointInfo], config: CheckpointConfig, now: datetime) -> Iterable[CheckpointInfo]:
    """Return those of a run's checkpoints (newest first) that the policy does not keep."""
    for place, info in enumerate(infos):
        if place == 0 or info.label is not None:
            continue
        too_many = config.keep is not None and place >= config.keep
        too_old = config.keep_age is not None and info.created < now - config.keep_age
        if too_many or too_old:
            yield info
