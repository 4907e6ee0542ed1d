"""The framework's messages and results as JSON for pages: what was said, without ids and raw representations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from checkpoints.records import Json
from wfdash.engines.agent_framework.library import is_of
from wfdash.values.display import to_display

MAX_DEPTH = 20


def display(value: Any, depth: int = 0) -> Json:
    """Return any value of a workflow as JSON: a message or an agent's response is its text."""
    if depth > MAX_DEPTH or value is None or isinstance(value, (str, int, float)):
        return to_display(value)
    if is_of(value, "AgentExecutorResponse"):
        return display(value.agent_response, depth + 1)
    if is_of(value, "AgentExecutorRequest"):
        asked = value.messages
        return display(asked[0] if len(asked) == 1 else asked, depth + 1)
    if is_of(value, "AgentResponse", "AgentResponseUpdate", "ChatResponse", "ChatResponseUpdate"):
        structured = getattr(value, "value", None)
        return to_display(value.text if structured is None else structured)
    if is_of(value, "Message"):
        shown = [content(one) for one in value.contents]
        return text_of(value) or (shown[0] if len(shown) == 1 else shown)
    if is_of(value, "Content"):
        return content(value)
    return _parts(value, depth + 1)


def _parts(value: Any, depth: int) -> Json:
    if isinstance(value, BaseModel):
        # A model's own serializers and secrets decide what is seen of it.
        return to_display(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: display(getattr(value, field.name), depth) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): display(item, depth) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [display(item, depth) for item in value]
    return to_display(value)


def content(value: Any) -> Json:
    """Return one content of a message: its text, or its plain fields."""
    if getattr(value, "text", None):
        return to_display(value.text)
    known = ("type", "name", "arguments", "result", "uri", "error_code", "message")
    found = {name: getattr(value, name, None) for name in known}
    call = getattr(value, "function_call", None)
    if call is not None:
        found |= {"name": call.name, "arguments": call.arguments}
    return to_display({name: item for name, item in found.items() if item is not None})


def text_of(message: Any) -> str:
    """Return the text of a message."""
    return str(getattr(message, "text", "") or "")
