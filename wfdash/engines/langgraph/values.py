"""Values of channels as they are stored, JSON or msgpack and no pickle, and as pages show them.

A stored value is one of::

    {"json": value}        plain JSON
    "msgpack:<base64>"     what LangGraph's serializer makes of it

Only data is loaded again: types that LangGraph calls safe, and data classes, models, enums and named tuples of modules
that this process has imported already. Nothing is imported, and nothing else is called, because a checkpoint says so.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from checkpoints.errors import Damaged
from checkpoints.langgraph.serializer import SAFE_TYPES, types_in
from checkpoints.records import Json, JsonObject
from wfdash.engines.langgraph.private import delta_value
from wfdash.engines.langgraph.thread import ROLES
from wfdash.values.display import to_display
from wfdash.values.errors import NotStorable

FOREIGN = object()
"""What ``plain`` returns for a value that is not plain JSON."""
MOST_BITS = 3_000
"""Bits of a number up to which it is stored as JSON."""


def plain(value: Any) -> Json:
    """Return a deep copy of plain JSON, ``FOREIGN`` for any other value (tuples, subclasses, NUL, NaN ...)."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return value if "\x00" not in value and (value.isascii() or _is_text(value)) else FOREIGN
    if kind is int:
        return value if value.bit_length() < MOST_BITS else FOREIGN
    if kind is float:
        return value if value - value == 0 else FOREIGN
    if kind is list:
        items = [plain(item) for item in value]
        return FOREIGN if any(item is FOREIGN for item in items) else items
    if kind is dict:
        copy: JsonObject = {}
        for key, item in value.items():
            if type(key) is not str or plain(key) is FOREIGN or (kept := plain(item)) is FOREIGN:
                return FOREIGN
            copy[key] = kept
        return copy
    return FOREIGN


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode(value: Any, where: str) -> tuple[Json, Json]:
    """Return a value as it is stored, and as pages show it. ``NotStorable`` names ``where``, the type and the remedy.

    Of plain JSON both are the same object, a copy.
    """
    value = delta_value(value)
    try:
        copy = plain(value)
    except RecursionError as error:
        text = f"{where}: its lists and objects are nested too deep to be stored: keep fewer levels there"
        raise NotStorable(text, path=where) from error
    if copy is not FOREIGN:
        return {"json": copy}, copy
    try:
        kind, data = _serializer(frozenset()).dumps_typed(value)
    except (TypeError, ValueError) as error:
        name = type(value).__name__
        text = f"{where}: {name} cannot be stored: keep JSON, messages, dataclasses or pydantic models there ({error})"
        raise NotStorable(text, path=where) from error
    for module, name in types_in(data) if kind == "msgpack" else ():
        if not may_load(module, name):
            text = (
                f"{where}: {module}.{name} cannot be loaded again: only dataclasses, pydantic models, enums and named "
                "tuples at the top of their module are, besides what LangGraph itself calls safe"
            )
            raise NotStorable(text, path=where)
    return f"{kind}:{base64.b64encode(data).decode()}", shown(value)


def decode(stored: Json) -> Any:
    """Return the value, a new object. ``Damaged`` for anything that ``encode`` has not made, or a type that is gone."""
    if isinstance(stored, dict) and "json" in stored:
        return _copied(stored["json"])
    kind, _, text = stored.partition(":") if isinstance(stored, str) else ("", "", "")
    if kind not in {"msgpack", "bytes", "bytearray", "null"}:
        raise Damaged("a value of the graph's state cannot be read: restore an older checkpoint")
    try:
        data = base64.b64decode(text, validate=True)
        types = frozenset(types_in(data)) if kind == "msgpack" else frozenset()
    except ValueError as error:
        raise Damaged(f"a value of the graph's state cannot be read: {error}") from error
    if refused := sorted(f"{module}.{name}" for module, name in types if not may_load(module, name)):
        raise Damaged(f"the state holds a {refused[0]}, which is not a data class of any loaded module: bring it back")
    return _serializer(types - SAFE_TYPES).loads_typed((kind, data))


def _copied(value: Json) -> Json:
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if type(value) is list else value


def may_load(module: str, name: str) -> bool:
    """Return whether a type may be made of stored data: a safe one, or a data class that is imported already."""
    if (module, name) in SAFE_TYPES:
        return True
    kind = getattr(sys.modules.get(module), name, None)
    if not isinstance(kind, type):
        return False
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named_tuple or dataclasses.is_dataclass(kind) or issubclass(kind, (BaseModel, Enum))


@functools.lru_cache(maxsize=64)
def _serializer(types: frozenset[tuple[str, str]]) -> JsonPlusSerializer:
    return JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=tuple(types) or None)


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
    face: JsonObject = {"role": role or ROLES.get(kind, kind), "content": to_display(given.content)}
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


def counted_in(value: Any, depth: int = 4) -> Iterator[tuple[str, Json]]:
    """Yield what tells a message apart, and what pages show of it, for each with tokens in what a task has written."""
    if isinstance(value, BaseMessage):
        if getattr(value, "usage_metadata", None):
            face = message(value)
            yield value.id or repr(face), face
    elif depth and (type(value) is dict or isinstance(value, (list, tuple))):
        for one in value.values() if type(value) is dict else value:
            yield from counted_in(one, depth - 1)


def _about(given: BaseMessage) -> JsonObject:
    """Return which model made a message, and its tokens as the provider counts them."""
    usage, response = getattr(given, "usage_metadata", None) or {}, given.response_metadata or {}
    model = response.get("model_name") or response.get("model")
    found = {name: usage[name] for name in ("input_tokens", "output_tokens") if isinstance(usage.get(name), int)}
    return found | ({"model": model} if isinstance(model, str) else {})
