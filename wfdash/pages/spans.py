"""Stretches of time that steps spent in a state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from wfdash.queries import Move

OPEN = frozenset({"running", "waiting", "sleeping", "retrying"})

Span = tuple[datetime, datetime]
Spans = dict[str, list[Span]]
"""State -> stretches; of ``failed`` the moments."""


def spent(moves: Sequence[Move], end: datetime, *, apart: str = "") -> dict[str, Spans]:
    """Return step -> state -> stretches, of all activations together; what has not ended lasts until ``end``.

    ``apart``: of this step alone, by activation instead of by step.
    """
    lasts: dict[tuple[str, str], Move] = {}
    found: dict[str, Spans] = {}
    for move in moves:
        if apart and move.step != apart:
            continue
        mine = found.setdefault(move.activation if apart else move.step, {})
        key = (move.step, move.activation)
        if before := lasts.get(key):
            _add(mine, before, move.at)
        lasts[key] = move
    for move in lasts.values():
        _add(found[move.activation if apart else move.step], move, end)
    return found


def _add(mine: Spans, move: Move, until: datetime) -> None:
    if move.state in OPEN:
        mine.setdefault(move.state, []).append((move.at, max(until, move.at)))
    elif move.state == "failed":
        mine.setdefault("failed", []).append((move.at, move.at))


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the stretches in order, those that touch or overlap joined."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            if high > joined[-1][1]:
                joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def length(spans: Iterable[Span]) -> timedelta:
    """Return how long they are in all."""
    return sum((high - low for low, high in spans), timedelta())


def busy(spans: Mapping[str, Iterable[Span]]) -> timedelta:
    """Return how long a step ran or waited in all, without counting anything twice."""
    return length(union(span for state, parts in spans.items() if state != "failed" for span in parts))


def within(spans: Iterable[Span], begin: datetime, end: datetime) -> list[Span]:
    """Return what of the stretches lies between two moments."""
    return [(max(low, begin), min(high, end)) for low, high in spans if low <= end and high >= begin]
