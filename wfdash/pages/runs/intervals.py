"""Intervals that steps spent in a state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from wfdash.queries.history.step_states import OPEN, StepTransition

Interval = tuple[datetime, datetime]
Intervals = dict[str, list[Interval]]
"""State -> intervals; of ``failed`` the times."""


def intervals_by_state(moves: Sequence[StepTransition], end: datetime, *, apart: str = "") -> dict[str, Intervals]:
    """Return step -> state -> intervals, of all activations together; what has not ended lasts until ``end``.

    ``apart``: only of this step, by activation instead of by step.
    """
    lasts: dict[tuple[str, str], StepTransition] = {}
    found: dict[str, Intervals] = {}
    for move in moves:
        if apart and move.step != apart:
            continue
        mine = found.setdefault(move.activation if apart else move.step, {})
        key = (move.step, move.activation)
        if before := lasts.get(key):
            _add_interval(mine, before, move.at)
        lasts[key] = move
    for move in lasts.values():
        _add_interval(found[move.activation if apart else move.step], move, end)
    return found


def _add_interval(mine: Intervals, move: StepTransition, until: datetime) -> None:
    if move.state in OPEN:
        mine.setdefault(move.state, []).append((move.at, max(until, move.at)))
    elif move.state == "failed":
        mine.setdefault("failed", []).append((move.at, move.at))


def union(spans: Iterable[Interval]) -> list[Interval]:
    """Return the intervals in order, adjacent and overlapping ones joined."""
    joined: list[Interval] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            if high > joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def length(spans: Iterable[Interval]) -> timedelta:
    """Return their total length."""
    return sum((high - low for low, high in spans), timedelta())


def total_busy(spans: Mapping[str, Iterable[Interval]]) -> timedelta:
    """Return how long a step ran or waited in all, overlaps counted once."""
    return length(union(span for state, parts in spans.items() if state != "failed" for span in parts))


def clip(spans: Iterable[Interval], begin: datetime, end: datetime) -> list[Interval]:
    """Return the parts of the intervals between two times."""
    return [(max(low, begin), min(high, end)) for low, high in spans if low <= end and high >= begin]
