"""What pages show of a checkpoint of a graph. Reads the JSON that was written for them; needs nothing of LangGraph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.records import Checkpoint, Json
from wfdash.contract import InFlight, Message, Shown, ToolUse
from wfdash.engines.langgraph.stored.thread import FORMAT, Space, Thread, is_hidden, path_of

ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool"}
ROLES |= {"system": "system", "developer": "system"}
"""The role or type of a message -> who speaks."""


def show(checkpoint: Checkpoint) -> Shown:
    """Return a checkpoint's state without what is LangGraph's own, its conversation, and what steps were given.

    The state of a subgraph in progress is under its name. ``ValueError`` for a checkpoint of another engine.
    """
    position = checkpoint.body.get("position")
    if not isinstance(position, dict) or position.get("format") != FORMAT:
        raise ValueError("its content is none of a LangGraph workflow")
    thread = Thread.of(checkpoint.body)
    state: dict[str, Json] = {}
    for ns, space in thread.spaces.items():
        rest = {name: face for name, face in _faces(space).items() if not transcript_of(face)}
        if rest:
            state |= {path_of(ns): rest} if ns else rest
    return Shown(state=state, transcript=longest_transcript(thread), inputs=thread.inputs)


def longest_transcript(thread: Thread) -> tuple[Message, ...]:
    """Return the longest conversation: an agent in a subgraph has that of the graph around it, and adds to it."""
    spoken = (transcript_of(face) for space in thread.spaces.values() for face in _faces(space).values())
    return max(spoken, key=len, default=())


def _faces(space: Space) -> dict[str, Json]:
    """Return what pages show of a namespace's channels; of plain JSON that is the value itself."""
    plain = {name: one["json"] for name, one in space.values.items() if isinstance(one, dict) and "json" in one}
    return {name: face for name, face in {**plain, **space.faces}.items() if not is_hidden(name)}


def in_flight(checkpoint: Checkpoint) -> InFlight:
    """Return the steps that had started and not ended at a checkpoint. Empty for a body of another engine."""
    position = checkpoint.body.get("position")
    own = position.get("own", {}) if isinstance(position, dict) else {}
    return InFlight(steps=tuple(dict.fromkeys(own.get("doing", {}).values())))


def transcript_of(face: Json) -> tuple[Message, ...]:
    """Return a list of messages as a transcript; empty for anything else."""
    if not isinstance(face, list) or not face:
        return ()
    found = [_message(one) for one in face if isinstance(one, dict) and one.get("role") in ROLES and "content" in one]
    return tuple(found) if len(found) == len(face) else ()


def _message(face: Mapping[str, Any]) -> Message:
    calls = face.get("tool_calls") or ()
    return Message(
        role=ROLES[face["role"]],
        text=text_of(face["content"]),
        name=str(face.get("name") or ""),
        calls=tuple(
            ToolUse(id=str(call.get("id") or ""), name=str(call.get("name") or ""), arguments=call.get("args"))
            for call in calls
            if isinstance(call, dict)
        ),
        call=str(face.get("tool_call_id") or ""),
        failed=face.get("status") == "error",
        model=str(face.get("model") or ""),
        input_tokens=_count(face.get("input_tokens")),
        output_tokens=_count(face.get("output_tokens")),
    )


def _count(value: Json) -> int | None:
    return value if type(value) is int else None


def text_of(content: Json) -> str:
    """Return the text of a message's content, whatever parts it has."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part if isinstance(part, str) else part.get("text", "") for part in parts if isinstance(part, (str, dict)))
    return "".join(text for text in texts if isinstance(text, str))
