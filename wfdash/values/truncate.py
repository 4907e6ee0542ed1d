"""Truncates a JSON value to what an event may carry."""

from __future__ import annotations

from checkpoints.records import Json

LONGEST = 500
MOST = 20
DEEPEST = 4


def truncate(value: Json, depth: int = 0) -> Json:
    """Return the value with long texts, long lists and deep nesting cut, each marked with an ellipsis."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if kind is not dict and kind is not list:
        return value
    if depth == DEEPEST:
        return "…"
    if kind is list:
        short = [truncate(item, depth + 1) for item in value[:MOST]]
        return short if len(value) <= MOST else [*short, f"… {len(value) - MOST} more"]
    return {key: truncate(value[key], depth + 1) for key in list(value)[:MOST]} | (
        {"…": ""} if len(value) > MOST else {}
    )
