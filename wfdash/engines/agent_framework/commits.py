"""Commits what the framework saves, or ends the drive: its storage for one run, and checkpoints with what changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_checkpoint_id
from checkpoints.records import (
    Checkpoint,
    Commit,
    EventDraft,
    Json,
    JsonObject,
    Phase,
    Reason,
    Request,
    Standing,
    frozen,
)
from checkpoints.storage import Recorder
from wfdash.contract import Failed, Finished, Outcome, Waiting
from wfdash.engines.agent_framework.definitions import is_function, receivers
from wfdash.engines.agent_framework.describing import ENGINE, version_of
from wfdash.engines.agent_framework.encoding import PickleCodec, aside
from wfdash.engines.agent_framework.position import FrameworkPosition, framework_part, packed, state_shown
from wfdash.engines.agent_framework.questions import Asked, ask, key_of
from wfdash.engines.agent_framework.step_events import ExecutorEvents
from wfdash.engines.agent_framework.transcripts import EXECUTORS, conversations_of, extended
from wfdash.engines.running_steps import RunningSteps
from wfdash.engines.serving import Served
from wfdash.questions.tools import conversation
from wfdash.values.errors import NotStorable, error_info, report_failure

MOST_MESSAGES = 30
"""Messages that a card shows, from the end; the run's page has all."""


@frozen
class DrivenRun:
    """What is driven: a run of a workflow, as it is served, with the copy that runs."""

    run: RunId
    name: str
    served: Served
    workflow: Any
    codec: PickleCodec


class Commits:
    """The commits of one drive. ``head``: the run's latest checkpoint, None before its first."""

    def __init__(
        self,
        driven: DrivenRun,
        recorder: Recorder,
        steps: RunningSteps,
        head: Checkpoint | None,
        before: FrameworkPosition,
    ) -> None:
        self.driven, self.head, self.before = driven, head, before
        self.requests: dict[str, Request] = {one.key: one for one in head.requests} if head is not None else {}
        self.given: JsonObject = dict(before.given)
        self.events = ExecutorEvents(steps, recorder, before)
        self.outcome: Outcome | None = None
        """How the drive has ended, once that is committed."""
        self._recorder, self._steps = recorder, steps
        self._transcript, self._saving = before.transcript, asyncio.Lock()

    async def save(self, checkpoint: Any, reason: Reason, *, ends: bool) -> None:
        """Commit a checkpoint of the framework, one at a time. ``ends``: without an answer there is nothing to do."""
        # First: what is noted from here on is committed together with the checkpoint.
        framework, shown, self._transcript = await self._converted(checkpoint)
        async with self._saving:
            opened = self._open(checkpoint)
            left = checkpoint.pending_request_info_events
            pending = {key for key, one in self.events.asking.items() if one.request in left}
            closed = tuple(RequestKey(key) for key in self.requests if key not in pending)
            self.requests = {key: one for key, one in self.requests.items() if key not in closed} | opened
            self.events.asking = {key: one for key, one in self.events.asking.items() if key in self.requests}
            if ends:
                reason = Reason.PAUSE if self.events.asking else Reason.END
            following = receivers(self.driven.workflow, checkpoint.messages) if not ends else ()
            fresh = self._checkpoint(reason, self._position(following, ends=ends).packed(framework, shown))
            standing = _standing(fresh.requests, self.events.settle()) if ends else None
            event = _ending(standing) if standing else EventKind.RUN_STARTED.draft() if reason is Reason.START else None
            await self._steps.commit(
                Commit(
                    run=self.driven.run,
                    checkpoint=fresh,
                    events=(event,) if event else (),
                    opened=tuple(opened.values()),
                    closed=closed,
                    standing=standing,
                    frozen=True,
                )
            )
            self.head = fresh
            if standing is not None:
                self.outcome = _outcome(fresh, standing)

    def _open(self, checkpoint: Any) -> dict[str, Request]:
        """Return the questions that are new in a checkpoint, by key."""
        known = {one.request for one in self.events.asking.values()}
        found: dict[str, Request] = {}
        for request, event in checkpoint.pending_request_info_events.items():
            if request not in known:
                key = key_of(request, taken=self.requests, n=self.head.n if self.head else 0)
                asking = self.events.asked(key, event.source_executor_id, request)
                asked = Asked(key=key, step=asking.step, event=event)
                evidence, now = conversation(self._transcript, most=MOST_MESSAGES), self._recorder.now()
                found[key] = fresh = ask(
                    self.driven.served, self.driven.workflow, asked, checkpoint.state, evidence, now
                )
                facts = {"activation": asking.activation, "key": key, "subject": fresh.card.get("subject", "")}
                self._steps.note(EventKind.REQUEST_OPENED.draft_of(asking.step, facts))
        return found

    def _position(self, following: tuple[str, ...], *, ends: bool) -> FrameworkPosition:
        return FrameworkPosition(
            idle=ends,
            interrupted=self.events.park() if ends else {},
            number=self.events.number,
            asking=dict(self.events.asking),
            given=dict(self.given),
            outputs=self.events.settle(),
            inputs=dict(self.events.inputs),
            transcript=self._transcript,
            next=following,
        )

    async def _converted(self, checkpoint: Any) -> tuple[Any, Any, Any]:
        """Return the framework's checkpoint as JSON, its state as pages show it, and what was said until then."""
        before: Any = framework_part(self.head) if self.head is not None else {}

        def convert() -> tuple[Any, Any, Any]:
            said = extended(self._transcript, conversations_of(checkpoint.state.get(EXECUTORS) or {}))
            return packed(self.driven.codec, checkpoint, before), state_shown(checkpoint), said

        if is_function(self.driven.workflow):
            return convert()  # Its other steps run on, and change what is saved.
        try:
            return await aside(checkpoint, convert)
        except (RuntimeError, NotStorable):
            # Other code may have changed a value at the same time, which it cannot while only this runs.
            return convert()

    def _checkpoint(self, reason: Reason, body: JsonObject) -> Checkpoint:
        parent, driven = self.head, self.driven
        return Checkpoint(
            id=new_checkpoint_id(),
            run=driven.run,
            workflow=WorkflowId(driven.name),
            n=parent.n + 1 if parent is not None else 1,
            parent=CheckpointId(parent.id) if parent is not None else None,
            version=version_of(driven.workflow),
            engine=ENGINE,
            step=self.events.last,
            reason=reason,
            created=self._recorder.now(),
            body=body,
            requests=tuple(self.requests.values()),
        )

    async def stand(self) -> Outcome:
        """Leave the run as its checkpoint left it: it waits, or it is complete."""
        if self.head is None:
            raise AssertionError("a run has a checkpoint before it stops")
        standing = _standing(self.head.requests, self.before.outputs)
        await self._steps.commit(Commit(run=self.driven.run, events=(_ending(standing),), standing=standing))
        return _outcome(self.head, standing)

    async def fail(self, error: Exception) -> Outcome:
        """Leave the run failed. Before its first checkpoint the error is raised: the worker records it."""
        if self.head is None:
            raise error
        info = error_info(error)
        step = self.events.fail({"type": info.type, "message": info.message})
        report_failure(error, step)
        info = info.model_copy(update={"step": step or None})
        event = EventKind.RUN_FAILED.draft_of(info.step, {"error": info.model_dump(exclude={"traceback"})})
        standing = Standing(phase=Phase.FAILED, error=info)
        await self._steps.commit(Commit(run=self.driven.run, events=(event,), standing=standing))
        return Failed(error=info, checkpoint=self.head)


def _standing(requests: tuple[Request, ...], outputs: tuple[Json, ...]) -> Standing:
    """Return in which phase a run is left. Its output is what was given, a list where it was given several times."""
    if requests:
        return Standing(phase=Phase.WAITING)
    return Standing(phase=Phase.COMPLETED, output=outputs[0] if len(outputs) == 1 else list(outputs) or None)


def _ending(standing: Standing) -> EventDraft:
    waits = standing.phase is Phase.WAITING
    return EventKind.RUN_WAITING.draft() if waits else EventKind.RUN_COMPLETED.draft(output=standing.output)


def _outcome(checkpoint: Checkpoint, standing: Standing) -> Outcome:
    if standing.phase is Phase.WAITING:
        return Waiting(requests=checkpoint.requests, checkpoint=checkpoint)
    return Finished(output=standing.output, checkpoint=checkpoint)


class SaveFailed(BaseException):
    """A checkpoint could not be committed: the drive ends. ``__cause__``: why.

    No ``Exception``: the framework continues after one of those, and a worker that has lost its run would, too.
    """


class RunStorage:
    """The framework's ``CheckpointStorage`` over one run. It loads what the run continues from, and nothing else."""

    def __init__(self, commit: Callable[[Any], Awaitable[None]]) -> None:
        self._commit = commit
        self.given: Any = None
        """What the run continues from."""
        self.broken: BaseException | None = None
        """Why a checkpoint could not be committed: nothing that the workflow does from then on counts."""
        self.stop: Callable[[], object] | None = None
        """Called once a checkpoint could not be committed, for code of authors that catches everything."""
        self.stopped = False

    async def save(self, checkpoint: Any) -> str:
        """Commit a checkpoint and return its id. ``SaveFailed`` if it cannot be committed, and ever after."""
        if self.broken is None:
            try:
                await self._commit(checkpoint)
            except BaseException as error:
                self.broken = error
                if self.stop is not None:
                    self.stop()
                    self.stopped = True
        self.check()
        return str(checkpoint.checkpoint_id)

    def check(self) -> None:
        """Raise ``SaveFailed`` if a checkpoint could not be committed."""
        if self.broken is not None:
            raise SaveFailed from self.broken

    async def load(self, checkpoint_id: str) -> Any:
        """Return the checkpoint the run continues from."""
        from agent_framework import WorkflowCheckpointException

        if self.given is None or self.given.checkpoint_id != checkpoint_id:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self.given

    async def list_checkpoints(self, *, workflow_name: str) -> list[Any]:
        """Return the checkpoint the run continues from, if there is one."""
        return [] if self.given is None else [self.given]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return its id."""
        return [one.checkpoint_id for one in await self.list_checkpoints(workflow_name=workflow_name)]

    async def get_latest(self, *, workflow_name: str) -> Any:
        """Return it, None if there is none."""
        return self.given

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete nothing: which checkpoints a run keeps is decided by the dashboard."""
        return False


async def not_saved(workflow: Any) -> NotStorable:
    """Return why the framework has made no checkpoint: it only logs that, and continues.

    The checkpoint is made again to learn the reason. The function for that has a private name; where it is gone, the
    log has the reason.
    """
    words = "Agent Framework could make no checkpoint"
    build = getattr(getattr(workflow, "_runner", None), "build_checkpoint", None)
    if build is not None:
        try:
            await build()
        except Exception as error:
            cause = error.__cause__ or error
            found = NotStorable(f"{words}: {error}: {cause}" if cause is not error else f"{words}: {error}")
            found.__cause__ = error
            return found
    return NotStorable(f"{words}: its log says why")
