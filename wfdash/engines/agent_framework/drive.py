"""One drive of a run: the framework's workflow runs on a storage that commits each of its checkpoints to the run.

What executors keep in plain attributes is part of a checkpoint: the framework saves what their hooks give, and those
that have none lose it. Between a question and its answer there is another copy of the workflow, often in another
process. So executors without hooks get some: what has changed since the copy was made is stored, and is put back.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from checkpoints.errors import CheckpointsError, Damaged
from checkpoints.records import Checkpoint, JsonObject, Reason
from checkpoints.storage import Recorder
from wfdash.contract import Continue, Outcome, Resume, RunInput, Start
from wfdash.engines.agent_framework import step_events
from wfdash.engines.agent_framework.allowed_types import codec_of
from wfdash.engines.agent_framework.commits import Commits, DrivenRun, RunStorage, SaveFailed, not_saved
from wfdash.engines.agent_framework.definitions import (
    executors_of,
    is_function,
    is_of,
    is_own,
    nested,
    workflow_for_drive,
)
from wfdash.engines.agent_framework.describing import input_for, options_for
from wfdash.engines.agent_framework.encoding import PickleCodec, aside
from wfdash.engines.agent_framework.position import ATTRIBUTES, FrameworkPosition, framework_part, position_in, unpacked
from wfdash.engines.agent_framework.questions import Asked, read
from wfdash.engines.running_steps import RunningSteps
from wfdash.engines.serving import Served
from wfdash.values.errors import NotStorable, WorkflowError


async def drive(served: Served, name: str, given: RunInput, recorder: Recorder) -> Outcome:
    """Run until finished, suspended or failed. ``name``: the workflow's."""
    async with RunningSteps(recorder, given.run) as steps:
        workflow = workflow_for_drive(served)
        codec = codec_of(workflow)
        driven = DrivenRun(run=given.run, name=name, served=served, workflow=workflow, codec=codec)
        before = FrameworkPosition() if isinstance(given, Start) else position_in(given.checkpoint)
        if isinstance(given, Continue):
            before = before.started()
        head = None if isinstance(given, Start) else given.checkpoint
        commits = Commits(driven, recorder, steps, head, before)
        executors = executors_of(workflow)
        if is_function(workflow):
            steps.step_in = lambda _, frames: (workflow.name, step_events.BODY)
        else:
            steps.step_in = lambda _, frames: commits.events.step_in(executors, frames)
        keep_attributes(workflow, codec, commits.events.warned)
        return await FrameworkDrive(given, commits).go()


class FrameworkDrive:
    """One drive of one run."""

    def __init__(self, given: RunInput, commits: Commits) -> None:
        self._given, self._commits, self._events = given, commits, commits.events
        self._workflow, self._codec = commits.driven.workflow, commits.driven.codec
        self._is_function = is_function(self._workflow)
        self._storage = RunStorage(self._save)
        self._restoring = self._superstep = False
        self._saved = isinstance(given, Resume)
        self._task = asyncio.current_task()

    async def go(self) -> Outcome:
        """Drive the run. What cannot be committed is raised, whatever the workflow makes of it."""
        answers = self._answers()
        if isinstance(self._given, Resume) and self._commits.before.idle and not answers:
            return await self._commits.stand()
        try:
            await self._run(answers)
        except (SaveFailed, asyncio.CancelledError) as error:
            return await self._broken(error)
        except CheckpointsError:
            raise
        except Exception as error:
            if self._storage.broken is not None:
                return await self._broken(error)
            return await self._commits.fail(error)
        if self._storage.broken is not None:
            return await self._broken(self._storage.broken)
        outcome = self._commits.outcome
        return outcome if outcome is not None else await self._commits.stand()

    async def _broken(self, error: BaseException) -> Outcome:
        """Raise why a checkpoint could not be committed; a value that cannot be kept fails the run."""
        broken = self._storage.broken
        if broken is None:
            raise error
        if self._task is not None and self._storage.stopped:
            self._task.uncancel()
        if isinstance(broken, WorkflowError):
            return await self._commits.fail(broken)
        raise broken

    def _answers(self) -> JsonObject:
        if not isinstance(self._given, Resume):
            return {}
        return {key: one.value for key, one in self._given.answers.items() if key in self._commits.requests}

    async def _run(self, answers: JsonObject) -> None:
        """Run the framework's workflow and take its events."""
        call = options_for(self._commits.driven.served, self._workflow)
        if isinstance(self._given, Resume):
            loaded = await self._load(self._given.checkpoint)
            call["checkpoint_id"] = loaded.checkpoint_id
            responses = self._responses(answers, loaded)
            call |= {"responses": responses} if responses else {}
        else:
            call["message"] = input_for(self._commits.driven.served, self._workflow, self._given.message)
        if isinstance(self._given, Continue):
            await self._restore(self._given.checkpoint)
        answered = [self._events.asking.pop(key) for key in answers]
        self._events.resumed([] if self._is_function else answered)
        live = self._is_function and step_events.watch(
            self._workflow, self._events, self._commits.before.interrupted, self._storage.check
        )
        if self._is_function and self._task is not None:
            # A function may catch everything: it is cancelled as well.
            self._storage.stop = self._task.cancel
        stream = self._workflow.run(**call, stream=True, checkpoint_storage=self._storage)
        try:
            async for event in stream:
                if event.type in ("superstep_started", "superstep_completed") and not self._saved:
                    # The framework only logs that it could make no checkpoint, and continues.
                    raise await not_saved(self._workflow)
                if event.type == "superstep_started":
                    self._superstep, self._saved = True, False
                if not live:
                    self._events.saw(event)
        finally:
            await stream.close()

    async def _load(self, checkpoint: Checkpoint) -> Any:
        """Return the framework's checkpoint that the run continues from."""
        part = framework_part(checkpoint)
        loaded = self._storage.given = await aside(
            part, lambda: unpacked(self._codec, self._workflow, part, str(checkpoint.id))
        )
        return loaded

    def _responses(self, answers: JsonObject, loaded: Any) -> JsonObject:
        """Return the answers as the framework expects them, by its request id. ``WrongType``."""
        responses = {key: self._codec.decode(one) for key, one in self._commits.given.items()}
        for key, value in answers.items():
            asking = self._events.asking[key]
            asked = Asked(key=key, step=asking.step, event=loaded.pending_request_info_events[asking.request])
            responses[asking.request] = response = read(asked, value, loaded.state)
            if self._is_function:
                # A function runs again from its top, and asks for every answer again.
                self._commits.given[asking.request] = self._codec.encode(response, f"the answer to {key}")
        return responses

    async def _restore(self, checkpoint: Checkpoint) -> None:
        """Bring the workflow to where the run it follows has left it. Nothing is left to do there, so nothing runs."""
        self._restoring = True
        loaded = await self._load(checkpoint)
        async for _ in self._workflow.run(
            checkpoint_id=loaded.checkpoint_id, stream=True, checkpoint_storage=self._storage
        ):
            pass
        self._restoring = False

    async def _save(self, checkpoint: Any) -> None:
        """Commit what the framework saves: its input, a superstep or a function's step, its end."""
        self._saved = True
        if self._restoring:
            return
        if self._is_function:
            ends = step_events.has_ended()
            if ends and not checkpoint.pending_request_info_events:
                self._events.finish(self._workflow.name)
            await self._commits.save(checkpoint, Reason.STEP, ends=ends)
        elif self._superstep:
            await self._commits.save(checkpoint, Reason.STEP, ends=not checkpoint.messages)
        elif not isinstance(self._given, Resume):
            await self._commits.save(checkpoint, Reason.START, ends=False)
        # Else answers that nothing was done with: the run continues from where it was, with the same answers.


LIVE = ("RawAgent", "BaseAgent", "BaseChatClient", "Executor", "Workflow", "WorkflowContext")
"""Classes of the framework whose objects belong to a copy of the workflow, or to the process."""
MOST = 1_000_000
"""Bytes of an attribute that is kept."""
HOOKS = ("on_checkpoint_save", "on_checkpoint_restore")
LOST = (
    "The attribute {name} changed, and is lost when the run waits or is taken over: {reason}. Keep plain data or a "
    "class of the workflow's module in it, or save it in on_checkpoint_save"
)


def keep_attributes(workflow: Any, codec: PickleCodec, warn: Callable[[str, str], object]) -> None:
    """Let a graph's checkpoints hold the attributes of executors that save nothing themselves, at any depth.

    ``warn`` gets an executor, and what of it cannot be kept, each once.
    """
    for executor in _plain(workflow):
        kept = Attributes(executor, codec, warn)
        executor.on_checkpoint_save, executor.on_checkpoint_restore = kept.save, kept.restore


def _plain(workflow: Any) -> Iterator[Any]:
    """Yield the executors of authors' classes without hooks of their own."""
    from agent_framework import Executor

    for executor in executors_of(workflow).values():
        hook = getattr(executor.on_checkpoint_save, "__func__", None)
        if hook is Executor.on_checkpoint_save and not is_own(type(executor).__module__):
            yield executor
    for _, inner in nested(workflow):
        yield from _plain(inner)


class Attributes:
    """The attributes of one executor, as they were and as they are."""

    def __init__(self, executor: Any, codec: PickleCodec, warn: Callable[[str, str], object]) -> None:
        self._executor, self._codec, self._warn = executor, codec, warn
        self._own = names_of_the_framework()
        self._warned = set[str]()
        self._fresh = {name: (value, mark(value)) for name, value in self._all()}

    def _all(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self._executor).items() if name not in self._own]

    async def save(self) -> JsonObject:
        """Return what has changed, if it can be kept: a pickle as a whole, so that it is signed."""
        kept = []
        for name, value in self._all():
            before, seen = self._fresh.get(name, (self, b""))
            now = mark(value)
            if now == seen and (now is not None or before is value):
                continue
            try:
                if now is None:
                    raise NotStorable(f"{type(value).__name__} cannot be copied, or has more than {MOST:,} bytes")
                self._codec.encode((value,), name)
                kept.append((name, value))
            except NotStorable as error:
                self._lose(name, str(error))
        return {ATTRIBUTES: tuple(kept)} if kept else {}

    async def restore(self, state: JsonObject) -> None:
        """Put back what has changed. ``Damaged`` for what was not kept as a whole, and so not signed."""
        kept = state.get(ATTRIBUTES, ())
        if not isinstance(kept, tuple):
            raise Damaged("the attributes of an executor are none of this installation: restore an older checkpoint")
        for name, value in kept:
            setattr(self._executor, name, value)

    def _lose(self, name: str, reason: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            self._warn(self._executor.id, LOST.format(name=name, reason=reason))


@functools.cache
def names_of_the_framework() -> frozenset[str]:
    """Return the attributes that every executor has, by the framework's own."""
    from agent_framework import Executor

    class Bare(Executor):
        pass

    own = vars(Bare(id="bare", defer_discovery=True))
    return frozenset({*own, *HOOKS, "_response_handlers", "_response_handler_specs", "is_request_response_capable"})


def mark(value: Any) -> bytes | None:
    """Return what differs if a value differs; None for what cannot be pickled, is too large, or is no plain data."""
    sink = _Sink()
    try:
        _Marking(sink, protocol=5).dump(value)
    except Exception:
        return None
    return sink.hash.digest()


class _Marking(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if is_of(obj, *LIVE):
            raise TypeError("it belongs to the process")
        return NotImplemented


class _Sink:
    def __init__(self) -> None:
        self.hash, self._size = hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        self._size += len(data)
        if self._size > MOST:
            raise ValueError("too large")
        self.hash.update(data)
        return len(data)
