"""When each step ran and when it waited: one row of bars per step, or per activation of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from wfdash.pages.runs.intervals import (
    Interval,
    Intervals,
    clip,
    intervals_by_state,
    length,
    total_busy,
    union,
)
from wfdash.pages.runs.timeline.axis import WIDTH, Axis, folded, folds_of, to_scale
from wfdash.pages.runs.timeline.labels import AxisText, fold_texts, tick_texts
from wfdash.pages.runs.timeline.window import MIN_WINDOW, TimeWindow, window_of
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.times import duration, offset
from wfdash.queries.history.step_states import OPEN, StepTransition

MIN_BAR = 6.0
"""Minimum width of a bar: a step of milliseconds is visible on a phone, too."""
NEAR = 1.5
"""Bars of one state that are this close are drawn as one."""
MAX_ROWS = 40
STATE_TEXTS = {"running": "Running", "waiting": "Waiting for people", "sleeping": "Sleeping", "retrying": "Retry delay"}
LEGEND = {**STATE_TEXTS, "failed": "Failed"}
STATES = ("waiting", "sleeping", "retrying", "running", "failed")
"""Later ones are drawn over earlier ones."""


@dataclass(frozen=True, kw_only=True)
class TimelineBar:
    """An interval in one state; ``x`` and ``width`` in thousandths of the axis. ``thin``: it lies in a fold."""

    state: str
    x: float
    width: float
    words: str
    thin: bool = False


@dataclass(frozen=True, kw_only=True)
class TimelineRow:
    """A step, or an activation of one: its bars, and the same as text."""

    step: str
    title: str
    bars: tuple[TimelineBar, ...]
    words: str
    busy: str
    """How long it ran or waited in all, overlaps counted once."""
    growing: timedelta | None = None
    """The same as a length, while it grows."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """All rows share one axis. ``texts``: what is folded; ``ticks``: times along it, with the time since the start.

    ``foldable``: there is something to fold.
    """

    rows: tuple[TimelineRow, ...]
    axis: Axis
    texts: tuple[AxisText, ...]
    ticks: tuple[AxisText, ...]
    zone: str
    window: TimeWindow
    begin: datetime
    foldable: bool = False
    left_out: int = 0

    @property
    def breaks(self) -> tuple[tuple[float, float], ...]:
        """Return where the axis is broken: place and width of each fold."""
        places = ((self.axis.place(fold.low), self.axis.place(fold.high)) for fold in self.axis.folds)
        return tuple((round(low, 2), round(high - low, 2)) for low, high in places)

    @property
    def summary(self) -> str:
        """Return the axis in words, for those who do not see it."""
        ticks = [f"{tick.words} ({tick.below})" for tick in (self.ticks[0], self.ticks[-1])]
        folds = [f"{duration(fold.length)} {fold.word}" for fold in self.axis.folds]
        folded = f"; folded: {', '.join(folds)}" if folds else ""
        return f"Time in {self.zone}, from {ticks[0]} to {ticks[1]}{folded}"

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Return the legend of the colours that occur: state and text."""
        seen = {bar.state for row in self.rows for bar in row.bars}
        return tuple((state, words) for state, words in LEGEND.items() if state in seen)


def timeline(
    moves: Sequence[StepTransition],
    until: datetime,
    titles: Mapping[str, str] | None = None,
    *,
    shown: Sequence[float] | None = None,
    apart: str = "",
    known: Mapping[str, Intervals] | None = None,
    fold: bool = False,
    origin: datetime | None = None,
) -> Timeline | None:
    """Return the rows in the order of the steps' first events; None where nothing happened yet.

    ``until``: when the run ended, or now; what has not ended is drawn up to there. ``shown``: seconds from and to, of
    the whole. ``apart``: a row for each activation of this step that has a title. ``known``: what ``spent`` returned
    for the transitions, if the caller has it. ``fold``: long stretches in which nothing ran are drawn short.
    ``origin``: what ticks count from, by default the first transition.
    """
    if not moves:
        return None
    begin, end = moves[0].at, max(until, moves[-1].at)
    whole = max((end - begin).total_seconds(), MIN_WINDOW)
    found = dict(known) if known is not None and not apart else intervals_by_state(moves, end, apart=apart)
    if apart:
        found = {name: spans for name, spans in found.items() if name in (titles or {})}
    folds = folds_of(found, begin, whole, run=known if known is not None else found)
    window = window_of(shown, folded(0.0, whole, folds) if fold else to_scale(0.0, whole))
    axis = folded(window.low, window.high, folds) if fold else to_scale(window.low, window.high)
    if window.zoomed:
        found = _cut(found, begin, window)
    going = {move.activation if apart else move.step for move in _last_transitions(moves) if move.state in OPEN}
    open_ended = frozenset() if window.zoomed else frozenset(going)
    return Timeline(
        rows=tuple(
            _timeline_row(name, (titles or {}).get(name, ""), found[name], begin, axis, open_ended=name in open_ended)
            for name in [*found][:MAX_ROWS]
        ),
        axis=axis,
        texts=fold_texts(axis, whole, growing=bool(going)),
        ticks=tick_texts(axis, begin, origin or begin),
        zone=offset(begin, timezone.get_current_timezone()),
        window=window,
        begin=begin,
        foldable=bool(folds),
        left_out=max(len(found) - MAX_ROWS, 0),
    )


def _last_transitions(moves: Sequence[StepTransition]) -> Iterable[StepTransition]:
    return {(move.step, move.activation): move for move in moves}.values()


def _cut(found: Mapping[str, Intervals], begin: datetime, window: TimeWindow) -> dict[str, Intervals]:
    """Return what happened within the window, of those in which something did."""
    low, high = begin + timedelta(seconds=window.low), begin + timedelta(seconds=window.high)
    parts = {name: {state: clip(parts, low, high) for state, parts in spans.items()} for name, spans in found.items()}
    return {name: spans for name, spans in parts.items() if any(spans.values())}


def _timeline_row(
    step: str, title: str, spans: Intervals, begin: datetime, axis: Axis, *, open_ended: bool
) -> TimelineRow:
    merged = {state: parts for state in STATES if (parts := union(spans.get(state, ())))}
    words = ", ".join(
        f"{STATE_TEXTS[state]} {duration(length(parts))}" for state, parts in merged.items() if state in STATE_TEXTS
    )
    bars = tuple(bar for state, parts in merged.items() for bar in _bars(state, parts, begin, axis))
    ended = ", failed" if "failed" in merged else ""
    name = title or step_label(step)
    whole = total_busy(merged)
    growing = whole if open_ended else None
    return TimelineRow(step=step, title=name, bars=bars, words=f"{words}{ended}", busy=duration(whole), growing=growing)


@dataclass(kw_only=True)
class _Stretch:
    """What becomes one bar: places, and how long the state lasted there, in how many intervals."""

    low: float
    high: float
    thin: bool
    lasted: timedelta
    number: int = 1


def _bars(state: str, spans: Iterable[Interval], begin: datetime, axis: Axis) -> list[TimelineBar]:
    drawn: list[_Stretch] = []
    for low, high in spans:
        pieces = axis.pieces((low - begin).total_seconds(), (high - begin).total_seconds())
        for n, (first, last, thin) in enumerate(pieces):
            width = max(last - first, 0.0 if thin else MIN_BAR)
            first = min(first, WIDTH - width)
            before = drawn[-1] if drawn else None
            if before and before.thin == thin and first <= before.high + NEAR:
                before.high = max(first + width, before.high)
                before.lasted += high - low
                before.number += n == 0
            else:
                drawn.append(_Stretch(low=first, high=first + width, thin=thin, lasted=high - low))
    return [_bar(state, one) for one in drawn]


def _bar(state: str, one: _Stretch) -> TimelineBar:
    times = f", {one.number} times" if one.number > 1 else ""
    words = f"failed{times}" if state == "failed" else f"{state} for {duration(one.lasted)}{times}"
    return TimelineBar(state=state, x=round(one.low, 2), width=round(one.high - one.low, 2), words=words, thin=one.thin)
