"""Hides what a schema calls a secret (``writeOnly``, or of format ``password``). Pure.

A field is recognised by its name, at any depth: hiding too much is better than showing too much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

HIDDEN = "•••"
"""Shown instead of a secret. Posted back, it leaves the secret unchanged."""


def secret_names(schema: Any) -> frozenset[str]:
    """Return the names of the fields that a schema calls secrets."""
    return frozenset(_names(schema))


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


def _names(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _names(part)
    if isinstance(schema, dict):
        fields = schema.get("properties")
        yield from (name for name, field in (fields if isinstance(fields, dict) else {}).items() if _is_secret(field))
        for part in schema.values():
            yield from _names(part)


def _is_secret(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    either = field.get("anyOf")
    declared = field.get("format") == "password" or field.get("writeOnly") is True
    return declared or any(_is_secret(one) for one in (either if isinstance(either, list) else ()))
