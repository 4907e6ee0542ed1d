"""A value that has the form a JSON Schema asks for, for people to change: what an example shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wfdash.schemas.nodes import Schema, is_secret, resolved

DEEPEST = 8
"""Levels of a value; recursive schemas end there."""
BLANKS: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}


def sample(schema: Schema) -> Any:
    """Return the example or default of a schema, else a value of its types with the required fields alone.

    Its form fits, its content need not: an empty text may be too short. A secret is its name in angle brackets.
    """
    return _sample(schema, schema, "secret", DEEPEST)


def _sample(node: Any, root: Schema, name: str, levels: int) -> Any:
    nodes = [one for one in resolved([node], root) if _says_something(one)]
    if any(is_secret(one) for one in nodes):
        return f"<{name}>"
    for one in nodes:
        found = _given(one)
        if found:
            return found[0]
    first = next((one for one in nodes if "type" in one or "properties" in one), {})
    if "properties" not in first:
        return BLANKS.get(str(first.get("type")), {} if first.get("type") == "object" else None)
    required = [key for key in first["properties"] if key in first.get("required", ())] if levels else []
    return {key: _sample(first["properties"][key], root, key, levels - 1) for key in required}


def _says_something(node: Schema) -> bool:
    return node.get("type") != "null"


def _given(node: Schema) -> list[Any]:
    """Return what a node itself gives as its value, first the best; empty without any."""
    if "const" in node:
        return [node["const"]]
    given = node.get("examples") or node.get("enum") or ([node["default"]] if "default" in node else [])
    return list(given) if isinstance(given, list) else []
