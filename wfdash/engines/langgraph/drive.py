"""One drive of a run: the graph is called, its tasks are steps, and how it ends is committed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessageChunk
from langgraph.types import Command

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey, WorkflowId
from checkpoints.records import Answer, Json, JsonObject, Phase, Reason, Standing
from checkpoints.rules import reported_usage
from checkpoints.storage import Confirming, Recorder
from wfdash.contract import Continue, Failed, Finished, InvalidInput, Outcome, Resume, RunInput, Waiting
from wfdash.engines.langgraph.committer import Committer
from wfdash.engines.langgraph.describe import secrets_of
from wfdash.engines.langgraph.graphs import Ready
from wfdash.engines.langgraph.private import (
    CONTROL,
    ERROR,
    INTERRUPT,
    NULL_TASK,
    RETURN,
    STRICT_RESUME,
    has_chat_models,
    has_ended,
    is_invalid_resume,
    namespace_in,
    with_saver,
)
from wfdash.engines.langgraph.questions import Breakpoints, Questions
from wfdash.engines.langgraph.saver import DriveSaver
from wfdash.engines.langgraph.schemas import input_of
from wfdash.engines.langgraph.thread import Thread, all_said, is_hidden, path_of, text_of
from wfdash.engines.langgraph.values import counted_in, shown
from wfdash.engines.running_steps import RunningSteps
from wfdash.values.display import truncate
from wfdash.values.errors import WorkflowError, error_info, message_of, report_failure

MODES = ["tasks", "custom"]


class GraphDrive:
    """One run being driven in this process. Make it, ``go`` once, throw it away."""

    def __init__(self, ready: Ready, workflow: WorkflowId, version: str, given: RunInput, recorder: Recorder) -> None:
        self._ready, self._given, self._recorder = ready, given, recorder
        checkpoint = given.checkpoint if isinstance(given, (Continue, Resume)) else None
        self._thread = Thread.of(checkpoint.body) if checkpoint is not None else Thread()
        if not isinstance(given, Resume) and (name := input_of(ready).context):
            self._thread.context = given.message.get(name, self._thread.context)
        self._steps = RunningSteps(recorder, given.run)
        self._tasks = Tasks(ready, self._thread, recorder, self._steps)
        self._steps.step_in = lambda context, _: self._tasks.step_in(context)
        requests = checkpoint.requests if checkpoint is not None else ()
        self._questions = Questions(
            self._thread, ready.served, requests, self._tasks.step_of, lambda: secrets_of(ready)
        )
        self._committer = Committer(
            given.run, workflow, version, checkpoint, recorder, self._thread, self._questions, self._steps
        )
        self._saver = DriveSaver(given.run, self._thread, self._committer)
        self._saver.on_written, self._saver.take_ended = self._tasks.written, self._tasks.take_ended
        self._committer.settle, self._tasks.on_step = self._saver.settle, self._committer.note_step
        self._graph = with_saver(ready.graph, self._saver)
        self._breakpoints = Breakpoints(ready, self._graph, self._thread, self._config)

    @property
    def _config(self) -> dict[str, Any]:
        served = self._ready.served.config
        own = {"thread_id": self._given.run, STRICT_RESUME: True}
        return {**served, "configurable": {**served.get("configurable", {}), **own}}

    async def go(self, message: Any = None) -> Outcome:
        """Drive the run until it is finished, waits or has failed. ``message``: a new run's input, as its type."""
        try:
            async with self._steps:
                if isinstance(self._recorder, Confirming):
                    await self._recorder.confirm()
                return await self._run(message)
        finally:
            self._committer.abort()

    async def _run(self, message: Any) -> Outcome:
        if not isinstance(self._given, Resume):
            self._steps.note(EventKind.RUN_STARTED.draft())
            return await self._call(message)
        self._take(self._given.answers)
        if self._thread.breakpoint is not None:
            return await self._wait()
        resume = self._questions.resume()
        if self._thread.parked and not resume and self._questions.open:
            return await self._wait()
        if not resume and (found := await self._breakpoints.missed()) is not None:
            self._thread.breakpoint = found
            self._committer.touch(Reason.PAUSE)
            return await self._wait()
        self._thread.parked = False
        return await self._call(Command(resume=resume) if resume else None, answered=list(resume))

    def _take(self, answers: Mapping[RequestKey, Answer]) -> None:
        at = self._thread.breakpoint
        for key in answers:
            if at is not None and key == at["key"]:
                self._thread.breakpoint, self._thread.passed = None, at["checkpoint"]
        taken = self._questions.take(answers)
        self._committer.closing += taken
        if taken:
            self._committer.touch(Reason.PAUSE)

    # -- the call

    async def _call(self, given: Any, answered: Sequence[str] = ()) -> Outcome:
        call = asyncio.create_task(self._stream(given))
        self._committer.on_broken = call.cancel
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            self._committer.abort()
            call.cancel()
            await asyncio.wait([call])
            self._error_of(call)
            raise
        error = self._error_of(call)
        if isinstance(error, ClaimLost):
            raise error
        if self._committer.broken is not None:
            self._committer.broken = None
            self._saver.forget_written()
        if isinstance(error, asyncio.CancelledError):
            raise error
        if error is not None and is_invalid_resume(error) and answered:
            return await self._refuse(error, answered)
        if error is not None:
            return await self._fail(error)
        self._saver.settle()
        return await self._end()

    def _error_of(self, call: asyncio.Task[None]) -> BaseException | None:
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        return error if self._committer.broken is None else self._committer.broken

    async def _stream(self, given: Any) -> None:
        modes: Any = [*MODES, *(["messages"] if has_chat_models() else [])]
        modes += ["updates"] if self._breakpoints.are_declared else []
        config: Any = self._config
        stream: Any = self._graph.astream(
            given,
            config,
            context=self._context(),
            stream_mode=modes,
            subgraphs=True,
            durability="sync",
        )
        async with contextlib.aclosing(stream):
            async for ns, mode, chunk in stream:
                self._tasks.heard("|".join(ns), mode, chunk)
                if mode == "updates" and chunk.get("__interrupt__") == ():
                    self._breakpoints.hit = True

    def _context(self) -> Any:
        """Return what ``serve(context=)`` gives, else what the run was started with, also in an earlier process."""
        if self._ready.served.context is not None:
            return self._ready.served.context
        try:
            return input_of(self._ready).read_context(self._thread.context)
        except InvalidInput as error:
            raise WorkflowError(
                f"The context that this run was started with does not match the graph's context_schema: {error}. "
                "Give new fields a default, or start a new run"
            ) from error

    # -- ends

    async def _end(self) -> Outcome:
        # A graph that is called without being declared may have stopped: then its node has not ended.
        stopped = self._breakpoints.hit or self._tasks.are_unfinished
        if stopped and not self._questions.interrupts():
            self._thread.breakpoint = await self._breakpoints.here()
        if self._questions.interrupts() or self._thread.breakpoint is not None:
            self._committer.touch(Reason.PAUSE)
            return await self._wait()
        return await self._finish()

    async def _wait(self) -> Outcome:
        if not self._thread.parked:
            self._thread.parked = True
            self._committer.touch(Reason.PAUSE)
        self._tasks.park()
        events = [EventKind.RUN_WAITING.draft()]
        checkpoint = await self._committer.finish(Standing(phase=Phase.WAITING), Reason.PAUSE, events)
        return Waiting(requests=checkpoint.requests, checkpoint=checkpoint)

    async def _finish(self) -> Outcome:
        output = await self._output()
        self._thread.parked = False
        self._committer.touch(Reason.END)
        events = [EventKind.RUN_COMPLETED.draft(output=output)]
        checkpoint = await self._committer.finish(Standing(phase=Phase.COMPLETED, output=output), Reason.END, events)
        return Finished(output=output, checkpoint=checkpoint)

    async def _output(self) -> Json:
        root, keys = self._thread.root, self._ready.graph.output_channels
        faces = root.faces if root is not None else {}
        if isinstance(keys, str):
            return faces.get(keys)
        if root is not None and not root.deltas.keys().isdisjoint(keys):
            config: Any = self._config
            values = (await self._graph.aget_state(config)).values
            faces = {**faces, **{name: shown(values[name]) for name in root.deltas if name in values}}
        return {name: faces[name] for name in keys if name in faces}

    async def _fail(self, error: BaseException) -> Outcome:
        try:
            self._saver.settle()
        except WorkflowError:  # It is the error, or one of several: what could be stored is.
            self._saver.forget_written()
        ns_task = self._saver.errors.get(id(error))
        step = self._tasks.step_of(*ns_task[1:]) if ns_task is not None else None
        if isinstance(error, WorkflowError):
            step = self._committer.step or None
        report_failure(error, step or "")
        info = error_info(error, step)
        face: Json = {"type": info.type, "message": info.message, "step": step}
        events = [EventKind.RUN_FAILED.draft(step, error=face)]
        self._committer.touch(Reason.FAILURE)
        checkpoint = await self._committer.finish(Standing(phase=Phase.FAILED, error=info), Reason.FAILURE, events)
        return Failed(error=info, checkpoint=checkpoint)

    async def _refuse(self, error: BaseException, answered: Sequence[str]) -> Outcome:
        """Ask again: an answer that its form accepted is none by the graph's own rules."""
        self._saver.settle()
        self._questions.refuse(answered)
        self._committer.touch(Reason.PAUSE)
        return await self._wait()


PULLED = "~__pregel_pull, "
"""How the path of a task begins that its edges start; its name follows. That of others does not say the name."""
PUSHED = ("__pregel_push",)
"""What triggers a task that ``Send`` starts, or a call of the functional API: its input is its own."""
NAMES = ("type", "event", "name", "status", "stage")
"""The keys of streamed data whose text says what it is."""


@dataclass(frozen=True, slots=True)
class _Ending:
    kind: EventKind
    facts: JsonObject
    at: datetime
    said: tuple[tuple[str, Json], ...] = ()
    """Messages of models with their tokens: what tells them apart, and what pages show of them."""


class Tasks:
    """Hears what the graph streams and what its tasks write, and notes it as events of steps."""

    def __init__(self, ready: Ready, thread: Thread, recorder: Recorder, steps: RunningSteps) -> None:
        self.on_step: Callable[[str], None] = lambda _: None
        """Called with a step that has ended, failed or asked."""
        self.ended: dict[str, list[str]] = {}
        """Namespace -> the nodes whose tasks have ended since its newest checkpoint."""
        self._ready, self._thread, self._recorder, self._steps = ready, thread, recorder, steps
        self._names: dict[str, str] = {}
        self._late: dict[str, _Ending] = {}
        self._said_by: set[str] = set()
        """What tells messages apart that were counted."""
        self._loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()

    def step_of(self, ns: str, task: str) -> str | None:
        """Return the step of a task; None while it is unknown."""
        if (step := self._thread.doing.get(task)) is not None:
            return str(step)
        name = self._names.get(task)
        if name is None:
            space = self._thread.spaces.get(ns)
            path = space.writes[task]["path"] if space is not None and task in space.writes else ""
            name = path.removeprefix(PULLED) if path.startswith(PULLED) else None
        return None if name is None else self._ready.step_named(path_of(ns, name))

    def step_in(self, context: Context) -> tuple[str, str]:
        """Return the step and the task whose code runs in a context; both are empty where it is no step's."""
        ns = namespace_in(context)
        step = path_of(ns)
        return (step, ns.rpartition(":")[2]) if step in self._ready.steps else ("", "")

    # -- what the graph streams

    def heard(self, ns: str, mode: str, chunk: Any) -> None:
        """Note a part of the stream."""
        if mode == "tasks" and "triggers" in chunk:
            self._started(ns, chunk)
        elif mode == "messages":
            self._said(chunk)
        elif mode == "custom":
            self._custom(ns, chunk)

    def _started(self, ns: str, chunk: JsonObject) -> None:
        task, name = chunk["id"], chunk["name"]
        self._names[task] = name
        late = self._late.pop(task, None)
        step = path_of(ns, name)
        if step not in self._ready.steps or self._has_ended(ns, task):
            return
        if task not in self._thread.doing:
            self._steps.started(task, step, at=late.at if late else None)
        if tuple(chunk["triggers"]) == PUSHED:
            self._thread.inputs = {**self._thread.inputs, task: shown(chunk["input"])}
        if late is not None:
            self._end(task, step, late)
        else:
            self._thread.doing = {**self._thread.doing, task: step}

    def _has_ended(self, ns: str, task: str) -> bool:
        """Return whether a task ended before: LangGraph gives it what it wrote then, and does not run it again."""
        space = self._thread.spaces.get(ns)
        written = space.writes.get(task) if space is not None and task not in self._late else None
        return written is not None and has_ended(written)

    def _said(self, chunk: Any) -> None:
        message, about = chunk
        text = text_of(message.content) if isinstance(message, AIMessageChunk) else ""
        if text:
            ns = str(about.get("langgraph_checkpoint_ns") or about.get("checkpoint_ns") or "")
            path = path_of(ns) or str(about.get("langgraph_node", ""))
            self._recorder.stream(self._ready.step_named(path), text)

    def _custom(self, ns: str, data: Any) -> None:
        level = path_of(ns)
        inner = [one for one in self._steps.running.items() if one[1].rpartition("/")[0] == level]
        activation, step = inner[0] if len(inner) == 1 else ("", level or None)
        face = shown(data)
        keys = [face[key] for key in NAMES if isinstance(face.get(key), str)] if isinstance(face, dict) else []
        facts: JsonObject = {"name": (keys or ["update"])[0][:60] or "update", "data": truncate(face)}
        self._steps.note(EventKind.CUSTOM.draft(step, **facts, **({"activation": activation} if activation else {})))

    # -- what its tasks write

    def take_ended(self, ns: str) -> list[str]:
        """Return the nodes of a namespace that have ended since this was asked last."""
        return self.ended.pop(ns, [])

    def written(self, ns: str, task: str, writes: Sequence[tuple[str, Any]]) -> None:
        """Note how a task has ended. From any thread."""
        ending = self._ending(writes)
        if ending is None or task == NULL_TASK:
            return
        if threading.get_ident() == self._ident:
            self._ended(ns, task, ending)
        else:
            self._loop.call_soon_threadsafe(self._ended, ns, task, ending)

    def _ended(self, ns: str, task: str, ending: _Ending) -> None:
        name = self._names.get(task)
        if name is None:
            self._late[task] = ending
            return
        if ending.kind is EventKind.STEP_FINISHED:
            self.ended.setdefault(ns, []).append(name)
        step = path_of(ns, name)
        if step in self._ready.steps:
            self._end(task, step, ending)

    def _ending(self, writes: Sequence[tuple[str, Any]]) -> _Ending | None:
        now = self._recorder.now()
        channels = dict(writes)
        if isinstance(error := channels.get(ERROR), BaseException):
            if isinstance(error, asyncio.CancelledError):
                return None
            face: Json = {"type": type(error).__name__, "message": message_of(error)}
            return _Ending(EventKind.STEP_FAILED, {"error": face, "attempt": 1}, now)
        if INTERRUPT in channels:
            return _Ending(EventKind.STEP_WAITING, {}, now)
        if all(channel in CONTROL for channel in channels):
            return None
        return _Ending(EventKind.STEP_FINISHED, {"output": self._output(writes)}, now, tuple(counted_in(writes)))

    def _output(self, writes: Sequence[tuple[str, Any]]) -> Json:
        found: JsonObject = {}
        for channel, value in writes:
            if channel == RETURN:
                return truncate(shown(value))
            if not is_hidden(channel):
                found[channel] = value
        return truncate(shown(found)) if found else None

    def _end(self, task: str, step: str, ending: _Ending) -> None:
        if ending.kind is not EventKind.STEP_WAITING:
            self._thread.doing = {name: one for name, one in self._thread.doing.items() if name != task}
            self._count(task, step, ending)
        self.on_step(step)
        self._steps.ended(task, ending.kind, step=step, at=ending.at, **ending.facts)

    def _count(self, task: str, step: str, ending: _Ending) -> None:
        """Note what models have used for messages that no channel had before, and no other task has written."""
        for key, face in ending.said:
            used = reported_usage(face.get("model"), face.get("input_tokens"), face.get("output_tokens"))
            if used is not None and key not in self._said_by and face not in all_said(self._thread):
                self._steps.note(EventKind.USAGE.draft_of(step, {"activation": task, **used}, ending.at))
            self._said_by.add(key)

    @property
    def are_unfinished(self) -> bool:
        """Return whether a step has started and has neither ended, nor failed, nor asked."""
        return bool(self._steps.running)

    def park(self) -> None:
        """Note that what has not ended waits: a subgraph that stands still in the middle."""
        for task in self._steps.running:
            self._steps.ended(task, EventKind.STEP_WAITING)
