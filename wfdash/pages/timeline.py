"""When each step ran and when it waited: one row of bars per step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from wfdash.pages.timefmt import duration
from wfdash.pages.words import called
from wfdash.queries import Move

WIDTH = 1000.0
SLIVER = 3.0
"""No bar is narrower, or nobody would see it."""
NEAR = 1.5
"""Bars of one state that are this close are drawn as one."""
MAX_ROWS = 40
TICKS = 4
OPEN = frozenset({"running", "waiting", "sleeping", "retrying"})
WORDS = {"running": "ran", "waiting": "waited for people", "sleeping": "slept", "retrying": "waited to try again"}
KEYS = {**WORDS, "failed": "failed"}
STATES = ("waiting", "sleeping", "retrying", "running", "failed")
"""Later ones are drawn over earlier ones."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A stretch of time in one state; ``x`` and ``width`` in thousandths of the whole."""

    state: str
    x: float
    width: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A step: its bars, and the same in words."""

    step: str
    title: str
    bars: tuple[Bar, ...]
    words: str
    busy: str
    """How long it ran or waited in all, without counting anything twice."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """All rows share one scale; ``ticks`` name the points of time along it."""

    rows: tuple[Row, ...]
    ticks: tuple[str, ...]
    left_out: int = 0

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """What the colours that occur mean: state and words."""
        seen = {bar.state for row in self.rows for bar in row.bars}
        return tuple((state, words) for state, words in KEYS.items() if state in seen)


Span = tuple[datetime, datetime]
Spans = dict[str, list[Span]]


def timeline(moves: Sequence[Move], until: datetime, titles: Mapping[str, str] | None = None) -> Timeline | None:
    """Return the rows in the order in which the steps were first heard of; None where nothing happened yet.

    ``until``: when the run ended, or now; what has not ended is drawn up to there.
    """
    if not moves:
        return None
    begin, end = moves[0].at, max(until, moves[-1].at)
    whole = max(end - begin, timedelta(milliseconds=1))
    spent = _spent(moves, end)
    shown = list(spent.items())[:MAX_ROWS]
    rows = tuple(_row(step, (titles or {}).get(step, ""), spans, begin, whole) for step, spans in shown)
    ticks = tuple(duration(whole * part / TICKS) if part else "0" for part in range(TICKS + 1))
    return Timeline(rows=rows, ticks=ticks, left_out=len(spent) - len(shown))


def _spent(moves: Sequence[Move], end: datetime) -> dict[str, Spans]:
    """Return step -> state -> stretches of time, of all activations together."""
    lives: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        lives.setdefault((move.step, move.activation), []).append(move)
    spent: dict[str, Spans] = {}
    for (step, _), life in lives.items():
        mine = spent.setdefault(step, {})
        for move, following in zip_longest(life, life[1:]):
            if move.state in OPEN:
                mine.setdefault(move.state, []).append((move.at, following.at if following else end))
            elif move.state == "failed":
                mine.setdefault("failed", []).append((move.at, move.at))
    return spent


def _row(step: str, title: str, spans: Spans, begin: datetime, whole: timedelta) -> Row:
    told = {state: union(spans[state]) for state in STATES if state in spans}
    title = title or called(step)
    words = ", ".join(f"{WORDS[state]} {duration(_length(parts))}" for state, parts in told.items() if state in WORDS)
    bars = tuple(bar for state, parts in told.items() for bar in _bars(state, parts, begin, whole))
    busy = union([span for state, parts in told.items() if state != "failed" for span in parts])
    ended = ", failed" if "failed" in told else ""
    return Row(step=step, title=title, bars=bars, words=f"{words}{ended}", busy=duration(_length(busy)))


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the stretches in order, those that touch or overlap joined."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _length(spans: Iterable[Span]) -> timedelta:
    return sum((high - low for low, high in spans), timedelta())


def _bars(state: str, spans: Iterable[Span], begin: datetime, whole: timedelta) -> list[Bar]:
    bars: list[Bar] = []
    for low, high in spans:
        x, width = (low - begin) / whole * WIDTH, max((high - low) / whole * WIDTH, SLIVER)
        x = min(x, WIDTH - width)
        last = bars[-1] if bars else None
        if last and x <= last.x + last.width + NEAR:
            bars[-1] = _bar(state, last.x, max(x + width - last.x, last.width), whole)
        else:
            bars.append(_bar(state, x, width, whole))
    return bars


def _bar(state: str, x: float, width: float, whole: timedelta) -> Bar:
    words = "failed" if state == "failed" else f"{state} for {duration(whole * width / WIDTH)}"
    return Bar(state=state, x=round(x, 2), width=round(width, 2), words=words)
