"""Values of a graph as pages show them: plain JSON, made when a checkpoint is written. Messages keep what is said."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage

from checkpoints.records import Json
from wfdash.values.display import to_display

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "developer": "system"}
"""A message's type, as LangChain names it -> who speaks."""


def shown(value: Any) -> Json:
    """Return a value as JSON for people. Never fails."""
    if isinstance(value, BaseMessage):
        return message(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, BaseMessage) for item in value):
        return [shown(item) for item in value]
    if type(value) is dict and any(_has_messages(item) for item in value.values()):
        return {str(key): shown(item) for key, item in value.items()}
    return to_display(value)


def _has_messages(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and any(isinstance(item, BaseMessage) for item in value)
    return isinstance(value, BaseMessage) or several


def message(given: BaseMessage) -> Json:
    """Return a message: who says what, and which tools it calls or which call it answers."""
    kind = given.type.removesuffix("MessageChunk").lower()
    role = getattr(given, "role", None) if kind == "chat" else None
    face: dict[str, Json] = {"role": role or ROLES.get(kind, kind), "content": to_display(given.content)}
    calls = getattr(given, "tool_calls", None)
    if calls:
        face["tool_calls"] = [
            {"id": call.get("id") or "", "name": call["name"], "args": to_display(call["args"])} for call in calls
        ]
    face |= _about(given)
    for name in ("name", "tool_call_id", "status"):
        if value := getattr(given, name, None):
            face[name] = to_display(value)
    if face.get("status") == "success":
        del face["status"]
    return face


def _about(given: BaseMessage) -> dict[str, Json]:
    """Return which model made a message, and its tokens as the provider counts them."""
    usage, response = getattr(given, "usage_metadata", None) or {}, given.response_metadata or {}
    model = response.get("model_name") or response.get("model")
    found = {name: usage[name] for name in ("input_tokens", "output_tokens") if isinstance(usage.get(name), int)}
    return found | ({"model": model} if isinstance(model, str) else {})
