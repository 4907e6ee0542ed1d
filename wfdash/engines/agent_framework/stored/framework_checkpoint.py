"""The framework's checkpoint as JSON and back, one entry for each executor, so that a storage sees what has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.records import Json
from wfdash.engines.agent_framework.library import is_of
from wfdash.engines.agent_framework.stored.display import display
from wfdash.engines.agent_framework.stored.encoding import PickleCodec
from wfdash.engines.agent_framework.stored.transcripts import EXECUTORS

EXECUTOR, STATE = "executor:", "state:"
"""Prefixes of the entries of executors, and of what they share."""
ATTRIBUTES = "wfdash:attributes"
"""The key of what an executor kept in plain attributes: pairs of a name and a value."""
INTERNAL = "internal:"
"""How the framework marks messages that an executor gets from outside of the graph."""


def packed(codec: PickleCodec, checkpoint: Any, before: Mapping[str, Json]) -> dict[str, Json]:
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


def state_shown(checkpoint: Any) -> dict[str, Json]:
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
