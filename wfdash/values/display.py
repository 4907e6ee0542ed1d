"""Any Python value as JSON for display. Never fails: what JSON cannot express keeps its type, size and repr."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from reprlib import Repr
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from checkpoints.records import Json, JsonObject

OPAQUE = "$opaque"
"""The key of an object that replaces a value JSON cannot express: ``{"$opaque": type, "size": n, "repr": text}``."""
MAX_DEPTH = 60
MAX_NODES = 200_000
MAX_REPR = 500
MAX_DIGITS = 1000
_REPR = Repr()
_REPR.maxlevel, _REPR.maxother, _REPR.maxstring = 3, MAX_REPR, MAX_REPR
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""The memory address in a repr: useless, and different in every process."""
_ANY: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="strings"))
_HALVES = dict.fromkeys(range(55296, 57344), "�") | {0: "\u2400"}


def to_display(value: Any, *, most: int = MAX_NODES) -> Json:
    """Return the value as JSON that every database can store. Dates, decimals, models and the like become plain.

    ``most``: how many of its parts are converted; the others keep their type and repr.
    """
    return _Walk(most).show(value, 0, ())


def opaque(value: Any) -> Json:
    """Return the replacement of a value that JSON cannot express."""
    fields: JsonObject = {OPAQUE: plain_text(type(value).__name__)}
    try:
        fields["size"] = len(value)
    except Exception:  # noqa: S110 - most values have no size
        pass
    try:
        text = _REPR.repr(value)
    except Exception as error:
        text = f"(cannot be shown: {type(error).__name__})"
    text = _ADDRESS.sub("", text)
    return {**fields, "repr": plain_text(text[:MAX_REPR] + ("…" if len(text) > MAX_REPR else ""))}


def plain_text(text: str) -> str:
    """Return text that can be stored: NUL and lone surrogates are replaced by visible characters."""
    if type(text) is str and text.isascii() and "\x00" not in text:
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return str(text).translate(_HALVES)
    return str(text).replace("\x00", "\u2400")


class _Walk:
    """Walks one value; ``left`` limits how many parts of it are kept."""

    def __init__(self, most: int) -> None:
        self.left = most

    def show(self, value: Any, depth: int, above: tuple[int, ...]) -> Json:
        self.left -= 1
        kind = type(value)
        if kind is str:
            return plain_text(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, (str, int, float)) and not isinstance(value, Enum):
            return _scalar(value)
        if depth >= MAX_DEPTH or self.left <= 0 or id(value) in above or isinstance(value, Iterator):
            return opaque(value)
        return self._compound(value, depth + 1, (*above, id(value)))

    def _compound(self, value: Any, depth: int, above: tuple[int, ...]) -> Json:
        try:
            if isinstance(value, Mapping):
                return {plain_text(_key(key)): self.show(item, depth, above) for key, item in value.items()}
            if isinstance(value, (set, frozenset)):
                # In an order that is the same in every process, so that a set is always shown the same.
                return sorted((self.show(item, depth, above) for item in value), key=json.dumps)
            if isinstance(value, (list, tuple)):
                return [self.show(item, depth, above) for item in value]
            plain = _plain_parts(value)
            return opaque(value) if plain is value else self.show(plain, depth, above)
        except Exception:
            return opaque(value)


def _scalar(value: Any) -> Json:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() < 3 * MAX_DIGITS else opaque(value)
    return float(value) if math.isfinite(value) else repr(float(value))


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    return str(key.value) if isinstance(key, Enum) else str(key)


def _plain_parts(value: Any) -> Any:
    """Return the parts of a model or a dataclass, the JSON of a date or the like; the value itself otherwise."""
    if isinstance(value, BaseModel):
        return _dumped(value, {name: getattr(value, name) for name in type(value).model_fields})
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return _dumped(value, value)


def _dumped(value: Any, otherwise: Any) -> Any:
    try:
        return _ANY.dump_python(value, mode="json", fallback=opaque)
    except (PydanticSerializationError, ValueError, TypeError):
        return otherwise


# -- what an event may carry of it

SHORT_TEXT, FEW_PARTS, FEW_LEVELS = 500, 20, 4
"""Characters of a text, parts of a list or an object, and levels of them."""


def truncate(value: Json, depth: int = 0) -> Json:
    """Return the value with long texts, long lists and deep nesting cut, each marked with an ellipsis."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= SHORT_TEXT else value[:SHORT_TEXT] + "…"
    if kind is not dict and kind is not list:
        return value
    if depth == FEW_LEVELS:
        return "…"
    if kind is list:
        short = [truncate(item, depth + 1) for item in value[:FEW_PARTS]]
        return short if len(value) <= FEW_PARTS else [*short, f"… {len(value) - FEW_PARTS} more"]
    return {key: truncate(value[key], depth + 1) for key in list(value)[:FEW_PARTS]} | (
        {"…": ""} if len(value) > FEW_PARTS else {}
    )
