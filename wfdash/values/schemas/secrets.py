"""Hides what a schema calls a secret (``writeOnly``, or of format ``password``). Pure.

A field is recognised by its name, at any depth: hiding too much is better than showing too much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from wfdash.values.schemas.work import Schema, is_secret, resolved

# A value that has the form a JSON Schema asks for, for people to change: what an example shows. Pure.

DEEPEST = 8
"""Levels of a value; recursive schemas end there."""
MOST_SHOWN = 20_000
"""Characters of a value with its names. Each part of the schema that was looked at counts as ten."""
BLANKS: Mapping[str, Any] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}


def sample(schema: Schema) -> Any:
    """Return the example or default of a schema, else a value of its types with the required fields alone.

    Its form fits, its content need not: an empty text may be too short. A secret is its name in angle brackets. Of more
    required fields than anyone reads it has the outer ones.
    """
    made: dict[str, Any] = {}
    waiting, left = deque([(made, "secret", schema, DEEPEST)]), MOST_SHOWN
    while waiting and left > 0:
        inside, name, part, levels = waiting.popleft()
        nodes = [one for one in resolved([part], schema) if one.get("type") != "null"]
        given = [f"<{name}>"] if any(map(is_secret, nodes)) else next(filter(None, map(_given, nodes)), [])
        first = next((one for one in nodes if "type" in one or "properties" in one), {})
        fields = first.get("properties", {})
        left -= 10 * len(nodes) + len(name) + len(str(given[:1])) + len(fields)
        if given and left > 0:
            inside[name] = given[0]
        elif fields:
            inside[name], needed = {}, set(first.get("required", ()) if levels else ())
            waiting += [(inside[name], key, fields[key], levels - 1) for key in fields if key in needed]
        else:
            inside[name] = BLANKS.get(str(first.get("type")))
    return made["secret"]


def _given(node: Schema) -> list[Any]:
    """Return what a node itself gives as its value, first the best; empty without any."""
    if "const" in node:
        return [node["const"]]
    given = node.get("examples") or node.get("enum") or ([node["default"]] if "default" in node else [])
    return list(given) if isinstance(given, list) else []


# What is hidden, and where a schema says so. Pure.

HIDDEN = "•••"
"""Shown instead of a secret. Posted back, it leaves the secret unchanged."""


def secret_names(schema: Any) -> frozenset[str]:
    """Return the names of the fields that a schema calls secrets."""
    found, left = set[str](), [schema]
    while left:
        part = left.pop()
        if isinstance(part, list):
            left += part
        elif isinstance(part, dict):
            fields = part.get("properties")
            if isinstance(fields, dict):
                found.update([name for name, field in fields.items() if _is_secret(field)])
            left += part.values()
    return frozenset(found)


def masked(value: Any, names: Collection[str]) -> Any:
    """Return the value with its secrets hidden; the value itself if there are no names."""
    if not names:
        return value
    if isinstance(value, dict):
        return {name: HIDDEN if name in names else masked(part, names) for name, part in value.items()}
    return [masked(part, names) for part in value] if isinstance(value, list) else value


def without(value: Any, names: Collection[str]) -> Any:
    """Return the value without its secrets: the initial value of a form in which they have to be entered again."""
    if isinstance(value, dict):
        return {name: without(part, names) for name, part in value.items() if name not in names}
    return [without(part, names) for part in value] if isinstance(value, list) else value


def unmasked(value: Any, before: Any, names: Collection[str]) -> Any:
    """Return the value with every secret that is still hidden replaced by the previous one at the same place."""
    if not names:
        return value
    if isinstance(value, dict):
        old = before if isinstance(before, dict) else {}
        return {
            name: old[name]
            if name in names and part == HIDDEN and name in old
            else unmasked(part, old.get(name), names)
            for name, part in value.items()
        }
    if isinstance(value, list):
        old_list = before if isinstance(before, list) else []
        return [unmasked(part, old_list[i] if i < len(old_list) else None, names) for i, part in enumerate(value)]
    return value


def _is_secret(field: Any) -> bool:
    either = field.get("anyOf") if isinstance(field, dict) else None
    return is_secret(field) or (isinstance(either, list) and any(map(_is_secret, either)))
