"""What the framework reports of a run, as events of its steps: which executor runs, waits, has given what.

The framework keeps the events of a workflow that is a function until it has ended or asks. They are taken here where
they are added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any

from checkpoints.events import EventKind
from checkpoints.records import Json, JsonObject
from checkpoints.storage import Recorder
from wfdash.engines.agent_framework.definitions import is_kind, is_of
from wfdash.engines.agent_framework.position import Asker, FrameworkPosition, is_update
from wfdash.engines.agent_framework.transcripts import display, usage_in
from wfdash.engines.running_steps import RunningSteps
from wfdash.values.display import truncate

UNSEEN = frozenset({"started", "status", "superstep_started", "superstep_completed", "failed", "executor_bypassed"})
LEVELS = {"warning": "WARNING", "error": "ERROR"}


class ExecutorEvents:
    """Turns the framework's events of one drive into events of steps, and keeps what a checkpoint needs of them.

    An executor that asks has ended for the framework; here its activation waits, and continues with the answer.
    """

    def __init__(self, steps: RunningSteps, recorder: Recorder, position: FrameworkPosition) -> None:
        self._steps, self._recorder = steps, recorder
        self.number = position.number
        self.asking = dict(position.asking)
        self.inputs = dict(position.inputs)
        self.outputs = list(position.outputs)
        self._failed: dict[str, JsonObject] = {}
        """Step -> error of those that failed, in their order: others may fail beside the first."""
        self.last: str | None = None
        """The step that ended last."""
        self._running: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        """Request id -> the activation that asked it, until it is committed."""
        self._resumed: dict[str, list[str]] = {}
        self._continued: dict[str, str] = {}
        """Activation -> step of those that have started in an earlier drive, and continue."""
        self._updates: dict[str, list[Any]] = {}

    def resumed(self, answered: Iterable[Asker]) -> None:
        """Expect the activations of these questions to continue, each once for every answer."""
        for asking in answered:
            self._resumed.setdefault(asking.step, []).append(asking.activation)

    def saw(self, event: Any) -> None:
        """Take an event of the framework."""
        kind = event.type
        if kind == "executor_invoked":
            self.began(event.executor_id, event.data)
        elif kind == "executor_completed":
            self.ended(event.executor_id, event.data)
        elif kind == "executor_failed":
            facts: JsonObject = {"type": event.details.error_type, "message": event.details.message}
            self._failed.setdefault(event.executor_id, facts)
        elif kind in ("output", "intermediate", "data"):
            self._gave(event, final=kind == "output")
        elif kind == "request_info":
            self._asks(event)
        elif kind not in UNSEEN:
            self._remarked(event)

    def began(self, step: str, message: Any) -> None:
        """Note that a step has begun, or continues with an answer."""
        waiting = self._resumed.get(step)
        if waiting:
            self._running[step] = activation = waiting.pop(0)
            self._continued[activation] = step
            return
        self.number += 1
        self._running[step] = activation = str(self.number)
        self.inputs[activation] = display(message)
        self._steps.started(activation, step)

    def step_in(self, names: Collection[str], frames: Sequence[FrameType]) -> tuple[str, str]:
        """Return the innermost executor that has a method among these frames, and its activation; empty if none has.

        The framework tells of an executor that blocks the event loop at once only when that has let go: its activation
        is then the next one.
        """
        for frame in reversed(frames):
            step = getattr(frame.f_locals.get("self"), "id", None)
            if isinstance(step, str) and step in names:
                return step, self._activation_of(step)
        return "", ""

    def _activation_of(self, step: str) -> str:
        running = self._running.get(step)
        if running is not None and self._is_running(running):
            return running
        return next(iter(self._resumed.get(step, ())), str(self.number + 1))

    def _asks(self, event: Any) -> None:
        """Note that a step asks. A question that was pending before is only repeated."""
        request, step = event.request_id, event.source_executor_id
        if step in self._running and request not in {one.request for one in self.asking.values()}:
            self._asked[request] = self._running[step]
            if is_kind(event.response_type, "Content"):
                # An agent in the middle of its turn: what it said is no output yet.
                self._updates.pop(step, None)

    def asked(self, key: str, step: str, request: str) -> Asker:
        """Keep who asked a question, and return it."""
        activation = self._asked.pop(request, None) or self._running.get(step, "")
        self.asking[key] = Asker(activation=activation, step=step, request=request)
        return self.asking[key]

    def ended(self, step: str, given: Any) -> None:
        """Note that a step has ended, or waits for the answers to what it has asked."""
        activation = self._running.get(step)
        if activation is None or not self._is_running(activation):
            return
        self.last = step
        if self.waits(activation):
            self._wait(activation)
        elif activation not in self._resumed.get(step, ()):
            self.inputs.pop(activation, None)
            output = _only(given)
            self._end(activation, EventKind.STEP_FINISHED, {} if output is None else {"output": truncate(output)})

    def _is_running(self, activation: str) -> bool:
        return activation in self._steps.running or activation in self._continued

    def _wait(self, activation: str) -> None:
        if self._continued.pop(activation, None) is None:
            self._steps.ended(activation, EventKind.STEP_WAITING)

    def _end(self, activation: str, kind: EventKind, facts: JsonObject) -> None:
        self._steps.ended(activation, kind, step=self._continued.pop(activation, ""), **facts)

    def waits(self, activation: str) -> bool:
        """Return whether an activation has asked something that is not answered."""
        return activation in self._asked.values() or any(one.activation == activation for one in self.asking.values())

    def finish(self, step: str) -> None:
        """Note that a function has ended, with what it returned."""
        self._resumed.pop(step, None)
        self.ended(step, self.outputs[-1] if self.outputs else None)

    def park(self) -> dict[str, str]:
        """Let every step that has not ended wait; return them: activation -> step."""
        parked = {**self._steps.running, **self._continued}
        for activation in parked:
            self._wait(activation)
        return parked

    def fail(self, error: JsonObject) -> str:
        """Note that steps failed, and return the name of the one with this error."""
        named = [step for step, facts in self._failed.items() if facts == error]
        step = next(iter([*named, *self._failed]), next(reversed(self._running), ""))
        for one, facts in {**self._failed, step: error}.items():
            activation = self._running.get(one)
            if activation is not None and self._is_running(activation):
                self._end(activation, EventKind.STEP_FAILED, {"error": facts, "attempt": 1})
        return step

    def settle(self) -> tuple[Json, ...]:
        """Return what the workflow has given, with the responses that were streamed as one each."""
        for step in list(self._updates):
            self._joined(step)
        return tuple(self.outputs)

    def _gave(self, event: Any, *, final: bool) -> None:
        step, data = event.executor_id or "", event.data
        for used in usage_in(data):
            self._steps.note(
                EventKind.USAGE.draft_of(step or None, {"activation": self._running.get(step, ""), **used})
            )
        if is_update(data):
            if data.text:
                self._recorder.stream(step, data.text)
            if final:
                self._updates.setdefault(step, []).append(data)
            return
        self._joined(step)
        if final:
            self.outputs.append(display(data))
        elif step:
            self._steps.note(self._custom(step, event.type, data))

    def _joined(self, step: str) -> None:
        """Make one response of what was streamed of it: each of its messages a paragraph."""
        updates = self._updates.pop(step, [])
        messages = itertools.groupby(updates, lambda one: (one.response_id, one.message_id, one.author_name))
        texts = ["".join(one.text or "" for one in same).strip() for _, same in messages]
        if any(texts):
            self.outputs.append(display("\n\n".join(text for text in texts if text)))

    def _remarked(self, event: Any) -> None:
        step = event.executor_id or self.last or ""
        if event.type in LEVELS:
            self.warned(step, str(event.data), level=LEVELS[event.type])
        else:
            self._steps.note(self._custom(step, event.type, event.data))

    def warned(self, step: str, words: str, *, level: str = "WARNING") -> None:
        """Note a line for the run's page."""
        facts: JsonObject = {"level": level, "logger": "agent_framework", "message": str(display(words))}
        self._steps.note(EventKind.LOG.draft_of(step or None, facts))

    def _custom(self, step: str, name: str, data: Any) -> Any:
        facts: JsonObject = {"name": str(name), "data": truncate(display(data))}
        if step in self._running:
            facts["activation"] = self._running[step]
        return EventKind.CUSTOM.draft_of(step or None, facts)


def _only(given: Any) -> Json:
    """Return what a step has given, a list only where it gave several things; streamed pieces are one text."""
    if not isinstance(given, list):
        return display(given)
    pieces = "".join(one.text or "" for one in given if is_update(one))
    whole = [display(one) for one in given if not is_update(one)]
    if pieces and not any(is_of(one, "AgentExecutorResponse") for one in given):
        whole.append(pieces)
    return whole[0] if len(whole) == 1 else whole or None


BODY = "1"
"""The activation of the function itself: it begins first."""


def watch(workflow: Any, events: ExecutorEvents, interrupted: Mapping[str, str], check: Callable[[], None]) -> bool:
    """Report what a function and its steps do, as they do it; return whether that is possible.

    ``check`` is called before each, and may raise. ``interrupted``: activation -> step of those that asked, or waited
    for what asked: they continue as they were. Where the framework makes the context of a run has a private name; if
    that is gone, its events come when the function has ended.
    """
    if events.number:
        body = Asker(activation=BODY, step=workflow.name, request="")
        steps = [Asker(activation=key, step=step, request="") for key, step in interrupted.items() if key != BODY]
        events.resumed([body, *steps])
    execute = getattr(workflow, "_execute", None)
    if execute is None:
        return False

    async def observed(context: Any, message: Any) -> Any:
        events.began(workflow.name, message)
        add = context.add_event

        async def added(event: Any) -> None:
            check()
            await add(event)
            events.saw(event)

        context.add_event = added
        return await execute(context, message)

    workflow._execute = observed
    return True


def has_ended() -> bool:
    """Return whether the function has ended, or asked: the framework saves a last time."""
    from agent_framework import get_run_context

    return get_run_context() is None
