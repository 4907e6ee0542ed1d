"""Writes a run's checkpoints: makes each from the moment and its parent, and commits it."""

from __future__ import annotations

from checkpoints.ids import CheckpointId, RunId, WorkflowId, new_checkpoint_id
from checkpoints.manager import CheckpointManager
from checkpoints.records import Checkpoint, Commit, Reason, Standing
from checkpoints.storage import Recorder
from wfdash.workflow.reducer.ticks import Moment
from wfdash.workflow.runtime.commit_batch import CommitBatch


class CheckpointWriter:
    """Knows the run's latest checkpoint."""

    def __init__(
        self,
        run: RunId,
        workflow: WorkflowId,
        version: str,
        checkpoint: Checkpoint | None,
        manager: CheckpointManager | None = None,
    ) -> None:
        """``manager`` leaves out checkpoints by its policy: those are no parents."""
        self.run = run
        self._manager = manager
        self.workflow = workflow
        self.version = version
        self.checkpoint = checkpoint
        self._written: Moment | None = None

    async def write(
        self, recorder: Recorder, moment: Moment, batch: CommitBatch, standing: Standing | None, reason: Reason | None
    ) -> Checkpoint:
        """Commit the batch, with a checkpoint unless it holds nothing but events. Return the latest checkpoint."""
        fresh = None
        if reason is not None or batch.reason is not None or self._changed(moment):
            fresh = self._next(recorder, moment, reason or batch.reason or Reason.PAUSE, batch)
        commit = Commit.trusted(
            run=self.run,
            checkpoint=fresh,
            events=tuple(batch.events),
            opened=batch.opened_in_order,
            closed=tuple(batch.closed),
            effects=tuple(batch.effects.values()),
            standing=standing,
            frozen=True,
        )
        await recorder.commit(commit)
        if fresh is not None:
            self.checkpoint, self._written = fresh, moment
        return self.latest

    async def write_events(self, recorder: Recorder, batch: CommitBatch) -> Checkpoint:
        """Commit the batch's events alone, between two checkpoints."""
        if batch.events:
            await recorder.commit(Commit.trusted(run=self.run, events=tuple(batch.events)))
        return self.latest

    @property
    def latest(self) -> Checkpoint:
        """The run's latest checkpoint; every run begins with one."""
        if self.checkpoint is None:
            raise AssertionError("a run begins with a checkpoint")
        return self.checkpoint

    def _changed(self, moment: Moment) -> bool:
        if self._written is not None:
            return moment is not self._written and moment != self._written
        body = self.checkpoint.body if self.checkpoint is not None else {}
        return moment.position != body.get("position") or moment.state != body.get("state")

    def _next(self, recorder: Recorder, moment: Moment, reason: Reason, batch: CommitBatch) -> Checkpoint:
        parent = self.checkpoint
        saved = self._manager.last_saved(self.run) if self._manager is not None else None
        return Checkpoint.trusted(
            id=new_checkpoint_id(),
            run=self.run,
            workflow=self.workflow,
            n=parent.n + 1 if parent is not None else 1,
            parent=CheckpointId(saved or parent.id) if parent is not None else None,
            version=self.version,
            step=batch.step.removesuffix(">") if batch.step is not None else None,
            reason=reason,
            label=batch.label,
            created=recorder.now(),
            body={"state": moment.state, "position": moment.position},
            requests=tuple(moment.requests.values()),
            facts={},
        )
