"""Where a run is, as a checkpoint holds it: the framework's checkpoint as JSON and back, and what only wfdash knows.

The framework's has one entry for each executor, so that a storage sees what has changed. It has no migrations: an
operator decides whether a checkpoint of an older graph continues under the current one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from pydantic import ValidationError

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint, Json, JsonObject, frozen
from wfdash.contract import Carried, Description, Message, Shown, pack_transcript, unpack_transcript
from wfdash.domain.graph_diff import compare
from wfdash.engines.agent_framework.definitions import executors_of, is_function, is_of
from wfdash.engines.agent_framework.encoding import PickleCodec
from wfdash.engines.agent_framework.transcripts import EXECUTORS, display

FORMAT = 1


@frozen
class Asker:
    """Who asked a pending question: the activation that waits for its answer, its step, the framework's request id."""

    activation: str
    step: str
    request: str


@frozen
class FrameworkPosition:
    """What a checkpoint holds besides the framework's own.

    ``idle``: nothing is left to do without an answer. ``number``: of the last activation. ``asking``: by question key.
    ``given``: the answers that a function is given again each time it runs, by request id. ``outputs``: what the
    workflow has given so far, as JSON. ``inputs``: of activations that wait.
    """

    idle: bool = False
    number: int = 0
    asking: Mapping[str, Asker] = field(default_factory=dict)
    given: Mapping[str, Json] = field(default_factory=dict)
    outputs: tuple[Json, ...] = ()
    inputs: Mapping[str, Json] = field(default_factory=dict)
    interrupted: Mapping[str, str] = field(default_factory=dict)
    """Activation -> step of what a function had begun when it asked; it continues with the answer."""
    transcript: tuple[Message, ...] = ()
    next: tuple[str, ...] = ()
    """The steps that messages were on their way to: they run when the run continues."""

    def packed(self, framework: Json, state: JsonObject) -> JsonObject:
        """Return a checkpoint's body. ``framework``: its own checkpoint, encoded; ``state``: as pages show it."""
        position = {
            "format": FORMAT,
            "idle": self.idle,
            "number": self.number,
            "asking": {key: vars(one) for key, one in self.asking.items()},
            "given": dict(self.given),
            "outputs": list(self.outputs),
            "inputs": dict(self.inputs),
            "interrupted": dict(self.interrupted),
            "transcript": pack_transcript(self.transcript),
            "next": list(self.next),
        }
        return {"state": state, "position": position, "framework": framework}

    def started(self) -> FrameworkPosition:
        """Return it at the beginning of a run that follows this one: its conversation, and nothing that was given."""
        return replace(self, idle=False, asking={}, given={}, outputs=(), inputs={}, interrupted={})


def position_in(checkpoint: Checkpoint) -> FrameworkPosition:
    """Return the position of a checkpoint. ``Incompatible`` if it is none of this engine's."""
    found = checkpoint.body.get("position")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Incompatible("This checkpoint was not written by the engine of Agent Framework, or by a later version")
    try:
        asking = {key: Asker(**one) for key, one in found["asking"].items()}
        transcript = unpack_transcript(found["transcript"])
        given, inputs = dict(found["given"]), dict(found["inputs"])
        return FrameworkPosition(
            idle=bool(found["idle"]),
            number=int(found["number"]),
            asking=asking,
            given=given,
            outputs=tuple(found["outputs"]),
            inputs=inputs,
            interrupted=dict(found["interrupted"]),
            transcript=transcript,
            next=tuple(found.get("next", ())),
        )
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise Incompatible(f"This checkpoint cannot be read: {error}") from error


def framework_part(checkpoint: Checkpoint) -> Json:
    """Return the framework's own checkpoint, encoded."""
    return checkpoint.body.get("framework")


def shown(checkpoint: Checkpoint) -> Shown:
    """Return what pages show of a checkpoint. ``Incompatible``: it is none of this engine's."""
    position = position_in(checkpoint)
    state: Any = checkpoint.body.get("state")
    return Shown(state=state if isinstance(state, dict) else {}, transcript=position.transcript, inputs=position.inputs)


EXECUTOR, STATE = "executor:", "state:"
"""Prefixes of the entries of executors, and of what they share."""
ATTRIBUTES = "wfdash:attributes"
"""The key of what an executor kept in plain attributes: pairs of a name and a value."""
INTERNAL = "internal:"
"""How the framework marks messages that an executor gets from outside of the graph."""


def packed(codec: PickleCodec, checkpoint: Any, before: Mapping[str, Json]) -> JsonObject:
    """Return a checkpoint of the framework as JSON. What equals ``before`` is the same object.

    ``NotStorable`` with its path for a value that cannot be kept.
    """
    parts = {key: codec.encode(value, _words(key)) for key, value in _parts(checkpoint)}
    return {key: before[key] if key in before and before[key] == part else part for key, part in parts.items()}


def _parts(checkpoint: Any) -> Iterator[tuple[str, Any]]:
    yield "messages", dict(checkpoint.messages)
    yield "pending", dict(checkpoint.pending_request_info_events)
    yield "metadata", dict(checkpoint.metadata)
    for key, value in checkpoint.state.items():
        if key == EXECUTORS and isinstance(value, dict):
            yield from ((f"{EXECUTOR}{name}", kept) for name, kept in value.items())
        else:
            yield f"{STATE}{key}", value


def _words(key: str) -> str:
    kind, _, name = key.partition(":")
    return f"the state of {name}" if f"{kind}:" == EXECUTOR else f"state {name!r}" if name else key


def unpacked(codec: PickleCodec, workflow: Any, parts: Json, checkpoint_id: str) -> Any:
    """Return the framework's checkpoint, for this workflow. ``Damaged``, ``Incompatible``.

    It counts its supersteps from zero: the framework ends a workflow after ``max_iterations`` of them, and means those
    between two answers.
    """
    from agent_framework import WorkflowCheckpoint

    if not isinstance(parts, dict):
        raise Incompatible("This checkpoint holds nothing of Agent Framework")
    found = {key: codec.decode(part) for key, part in parts.items()}
    state = {key.removeprefix(STATE): value for key, value in found.items() if key.startswith(STATE)}
    executors = {key.removeprefix(EXECUTOR): value for key, value in found.items() if key.startswith(EXECUTOR)}
    if executors:
        state[EXECUTORS] = executors
        _reset_counts(executors)
    return WorkflowCheckpoint(
        workflow_name=workflow.name,
        # Whether a checkpoint fits its graph was decided by its version, or by a person.
        graph_signature_hash=workflow.graph_signature_hash,
        checkpoint_id=checkpoint_id,
        messages=found.get("messages", {}),
        state=state,
        pending_request_info_events=found.get("pending", {}),
        metadata=found.get("metadata", {}),
    )


def _reset_counts(executors: Mapping[str, Any]) -> None:
    """Let sub-workflows count from zero, too."""
    for kept in executors.values():
        inner = kept.get("sub_workflow_checkpoint") if isinstance(kept, dict) else None
        if inner is not None:
            inner.iteration_count = 0
            _reset_counts(inner.state.get(EXECUTORS) or {})


def state_shown(checkpoint: Any) -> JsonObject:
    """Return the state as pages show it: what executors share, and what those keep that are no agents."""
    shared = {key: display(value) for key, value in checkpoint.state.items() if not key.startswith("_")}
    kept = checkpoint.state.get(EXECUTORS) or {}
    own = {name: display(shown) for name, value in kept.items() if (shown := _own(value))}
    return {**own, **shared}


def _own(value: Any) -> Any:
    """Return what is shown of an executor: nothing of an agent, and of attributes no private ones, which may hold
    anything.
    """
    if not isinstance(value, dict):
        return value
    if "agent_session" in value or "sub_workflow_checkpoint" in value:
        return None
    if ATTRIBUTES not in value:
        return value
    return {name: kept for name, kept in value[ATTRIBUTES] if not name.startswith("_")}


def steps_in(body: Mapping[str, Json]) -> Iterator[str]:
    """Yield the executors that a checkpoint holds the state of, or a message from; decodes nothing."""
    parts = body.get("framework")
    if isinstance(parts, dict):
        yield from (key.removeprefix(EXECUTOR) for key in parts if key.startswith(EXECUTOR))
        yield from (str(source).removeprefix(INTERNAL) for source in parts.get("messages") or {})


def is_update(value: Any) -> bool:
    """Return whether a value is a piece of an agent's response that is streamed."""
    return is_of(value, "AgentResponseUpdate")


def carry(
    workflow: Any, now: Description, checkpoint: Checkpoint, old: Description | None, *, override: bool
) -> Carried:
    """Return the checkpoint's content under the current graph, unchanged. ``Incompatible`` without ``override``.

    With it, too, if a step is gone that the checkpoint holds something of: the framework would not read it.
    """
    position_in(checkpoint)
    if not override:
        words = compare(old, now).summary if old is not None else ""
        raise Incompatible(
            "The workflow changed since this run started"
            + (f": {words}" if words else "")
            + ". Agent Framework has no migrations: bring its old code back, or continue it on the current version"
        )
    have = executors_of(workflow)
    gone = [] if is_function(workflow) else sorted({name for name in steps_in(checkpoint.body) if name not in have})
    if gone:
        raise Incompatible(f"The checkpoint holds the state of {', '.join(gone)}, which the workflow no longer has")
    return Carried(how="override", body=checkpoint.body, requests=checkpoint.requests)
