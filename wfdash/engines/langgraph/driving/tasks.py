"""The tasks of one drive as steps: which has started, ended, asked or failed, and what its author streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessageChunk

from checkpoints.events import EventKind
from checkpoints.records import Json
from checkpoints.storage import Recorder
from wfdash.engines.langgraph.definition.graphs import Ready
from wfdash.engines.langgraph.private import CONTROL, ERROR, INTERRUPT, NULL_TASK, RETURN, has_ended, namespace_in
from wfdash.engines.langgraph.stored.show import text_of
from wfdash.engines.langgraph.stored.thread import Thread, is_hidden, path_of
from wfdash.engines.langgraph.stored.values import shown
from wfdash.engines.running_steps import RunningSteps
from wfdash.values.display import truncate
from wfdash.values.errors import message_of

PULLED = "~__pregel_pull, "
"""How the path of a task begins that its edges start; its name follows. That of others does not say the name."""
PUSHED = ("__pregel_push",)
"""What triggers a task that ``Send`` starts, or a call of the functional API: its input is its own."""
NAMES = ("type", "event", "name", "status", "stage")
"""The keys of streamed data whose text says what it is."""


@dataclass(frozen=True, slots=True)
class _Ending:
    kind: EventKind
    facts: dict[str, Json]
    at: datetime


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

    def _started(self, ns: str, chunk: dict[str, Any]) -> None:
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
        facts: dict[str, Json] = {"name": (keys or ["update"])[0][:60] or "update", "data": truncate(face)}
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
        return _Ending(EventKind.STEP_FINISHED, {"output": self._output(writes)}, now)

    def _output(self, writes: Sequence[tuple[str, Any]]) -> Json:
        found: dict[str, Any] = {}
        for channel, value in writes:
            if channel == RETURN:
                return truncate(shown(value))
            if not is_hidden(channel):
                found[channel] = value
        return truncate(shown(found)) if found else None

    def _end(self, task: str, step: str, ending: _Ending) -> None:
        if ending.kind is not EventKind.STEP_WAITING:
            self._thread.doing = {name: one for name, one in self._thread.doing.items() if name != task}
        self.on_step(step)
        self._steps.ended(task, ending.kind, step=step, at=ending.at, **ending.facts)

    @property
    def are_unfinished(self) -> bool:
        """Return whether a step has started and has neither ended, nor failed, nor asked."""
        return bool(self._steps.running)

    def park(self) -> None:
        """Note that what has not ended waits: a subgraph that stands still in the middle."""
        for task in self._steps.running:
            self._steps.ended(task, EventKind.STEP_WAITING)
