"""The answer to a question whose author does not say what it takes: any JSON, but a text first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkpoints.records import Json

MOST_OPTIONS = 20
LONGEST_OPTION = 80
"""Characters of an option: a longer text is something to read."""


def open_answer(options: Sequence[Json] = ()) -> dict[str, Json]:
    """Return the schema of an answer that may be anything. ``options``: those to choose from, beside anything else."""
    kinds: list[Json] = [
        {"type": "string", "title": "Text", "format": "textarea"},
        {"type": "boolean", "enum": [True, False], "title": "Yes or no"},
        {"title": "JSON"},
    ]
    chosen: list[Json] = [{"enum": list(options), "title": "Choice"}] if options else []
    return {"title": "Answer", "anyOf": [*chosen, *kinds]}


def options_in(value: Any) -> list[Json]:
    """Return what a list offers to choose from; nothing unless it is some short, different texts or whole numbers."""
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_OPTIONS:
        return []
    plain = all(type(one) is int or (isinstance(one, str) and 0 < len(one.strip()) <= LONGEST_OPTION) for one in value)
    return list(value) if plain and len(set(value)) == len(value) else []
