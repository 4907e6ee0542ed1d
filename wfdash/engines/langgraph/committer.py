"""Writes the checkpoints of one drive: one commit at a time, each with all that has changed until it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_checkpoint_id
from checkpoints.records import Checkpoint, Commit, EventDraft, Reason, Request, Standing
from checkpoints.storage import Recorder
from wfdash.engines.langgraph.questions import Questions
from wfdash.engines.langgraph.thread import Thread
from wfdash.engines.running_steps import RunningSteps

ENGINE = "langgraph"


class Committer:
    """Knows the run's latest checkpoint, what has changed since, and which answers are to be closed."""

    def __init__(
        self,
        run: RunId,
        workflow: WorkflowId,
        version: str,
        checkpoint: Checkpoint | None,
        recorder: Recorder,
        thread: Thread,
        questions: Questions,
        steps: RunningSteps,
    ) -> None:
        self.run, self.workflow, self.version = run, workflow, version
        self.checkpoint = checkpoint
        self.broken: BaseException | None = None
        self.on_broken: Callable[[], object] = lambda: None
        self.settle: Callable[[], None] = lambda: None
        """Completes the thread before it is stored."""
        self.closing: list[RequestKey] = []
        self._recorder, self._thread, self._questions, self._steps = recorder, thread, questions, steps
        self._changed = self._written = 0
        self._lock = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._saving: set[asyncio.Task[Any] | None] = set()
        """The tasks that wait for a commit."""
        self._flush_task: asyncio.Task[None] | None = None
        self._reason = Reason.STEP
        self.step = ""
        """The step that has ended last."""

    @property
    def latest(self) -> Checkpoint:
        """The run's latest checkpoint; every run begins with one."""
        if self.checkpoint is None:
            raise AssertionError("a run begins with a checkpoint")
        return self.checkpoint

    def note_step(self, step: str) -> None:
        """Note a step that has ended: the next checkpoint is named after the last of them."""
        self.step = step

    def touch(self, reason: Reason = Reason.STEP) -> int:
        """Note that the thread has changed, and why. Return a mark for ``save``."""
        self._changed += 1
        self._reason = reason
        return self._changed

    async def save(self, mark: int) -> None:
        """Return once all that had changed at this mark is durable. What a commit raises ends the drive."""
        if self.broken is not None:
            raise self.broken
        task = asyncio.current_task()
        self._saving.add(task)
        try:
            async with self._lock:
                if self._written < mark:
                    await self._commit(None)
        finally:
            self._saving.discard(task)

    def save_soon(self, delay: float) -> None:
        """Save in so many seconds at the latest. From the loop's thread."""
        due = self._loop.time() + delay
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._flush)

    async def finish(self, standing: Standing, reason: Reason, events: list[EventDraft]) -> Checkpoint:
        """Write the last commit of the drive, and return the run's latest checkpoint."""
        self.stop()
        async with self._lock:
            return await self._commit(standing, reason, events)

    def stop(self) -> None:
        """Write nothing any more by itself."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def abort(self) -> None:
        """Cancel commits in flight, and write nothing any more: the drive is over."""
        self.stop()
        self.broken = self.broken or asyncio.CancelledError()
        for task in self._saving:
            if task is not None:
                task.cancel()

    def _flush(self) -> None:
        self._timer = None
        if self._changed > self._written and self.broken is None:
            self._flush_task = self._loop.create_task(self._save_all())

    async def _save_all(self) -> None:
        try:
            await self.save(self._changed)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        if self.broken is None:
            self.broken = error
            self.on_broken()

    async def _commit(
        self, standing: Standing | None, reason: Reason | None = None, events: list[EventDraft] | None = None
    ) -> Checkpoint:
        try:
            self.settle()
        except BaseException as error:
            self._break(error)
            raise
        mark = self._changed
        opened, withdrawn = self._questions.update(self._recorder.now())
        drafts = [*self._asked(opened), *self._withdrawn(withdrawn), *(events or [])]
        closed, self.closing = [*self.closing, *withdrawn], []
        fresh = None
        if mark > self._written or opened or closed or self.checkpoint is None:
            fresh = self._next(reason or self._reason)
        commit = Commit(
            run=self.run,
            checkpoint=fresh,
            events=tuple(drafts),
            opened=tuple(opened),
            closed=tuple(closed),
            standing=standing,
            frozen=True,
        )
        try:
            await self._steps.commit(commit)
        except BaseException as error:
            self._break(error)
            raise
        self._written = mark
        self.checkpoint = fresh or self.latest
        return self.checkpoint

    def _asked(self, opened: list[Request]) -> list[EventDraft]:
        drafts = []
        for request in opened:
            facts = {"key": request.key, "subject": request.card.get("subject", "")}
            activation = self._questions.activations.get(request.key, request.step)
            drafts.append(EventKind.REQUEST_OPENED.draft(request.step, activation=activation, **facts))
        return drafts

    def _withdrawn(self, keys: list[RequestKey]) -> list[EventDraft]:
        return [EventKind.REQUEST_WITHDRAWN.draft(None, key=key) for key in keys]

    def _next(self, reason: Reason) -> Checkpoint:
        parent = self.checkpoint
        if parent is None and reason is Reason.STEP:
            reason = Reason.START
        return Checkpoint(
            id=new_checkpoint_id(),
            run=self.run,
            workflow=self.workflow,
            n=parent.n + 1 if parent is not None else 1,
            parent=CheckpointId(parent.id) if parent is not None else None,
            version=self.version,
            engine=ENGINE,
            step=self.step or None,
            reason=reason,
            created=self._recorder.now(),
            body=self._thread.body(),
            requests=tuple(self._questions.open.values()),
        )
