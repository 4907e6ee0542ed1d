"""When each step ran and when it waited: one row of bars per step, or per activation of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from wfdash.pages.runs.intervals import Interval, Intervals, clip, intervals_by_state, length, total_busy, union
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.times import duration, offset
from wfdash.queries import StepTransition
from wfdash.queries.history.idle_periods import OPEN

WIDTH = 1000.0
MIN_BAR = 3.0
"""Minimum width of a bar, so that it is visible."""
NEAR = 1.5
"""Bars of one state that are this close are drawn as one."""
MAX_ROWS = 40
TICKS = 4
MIN_WINDOW = 0.001
"""Seconds; the closest zoom."""
STATE_TEXTS = {"running": "Running", "waiting": "Waiting for people", "sleeping": "Sleeping", "retrying": "Retry delay"}
LEGEND = {**STATE_TEXTS, "failed": "failed"}
STATES = ("waiting", "sleeping", "retrying", "running", "failed")
"""Later ones are drawn over earlier ones."""


@dataclass(frozen=True, kw_only=True)
class TimelineBar:
    """An interval in one state; ``x`` and ``width`` in thousandths of the whole."""

    state: str
    x: float
    width: float
    words: str


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
class TimeWindow:
    """The visible part of the whole, in seconds from its start."""

    low: float
    high: float
    whole: float

    @property
    def zoomed(self) -> bool:
        """Return whether it is less than the whole."""
        return self.low > 0 or self.high < self.whole

    @property
    def closer(self) -> tuple[float, float]:
        """Return the middle half."""
        quarter = (self.high - self.low) / 4
        return (self.low + quarter, self.high - quarter) if quarter * 2 >= MIN_WINDOW else (self.low, self.high)

    @property
    def farther(self) -> tuple[float, float]:
        """Return twice as much."""
        half = (self.high - self.low) / 2
        return max(self.low - half, 0.0), min(self.high + half, self.whole)

    def moved(self, direction: int) -> tuple[float, float]:
        """Return a window half its width earlier (-1) or later (1), within the whole."""
        by = direction * (self.high - self.low) / 2
        by = max(by, -self.low) if by < 0 else min(by, self.whole - self.high)
        return self.low + by, self.high + by


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """All rows share one scale; ``ticks`` are the times along it, with the time since the start."""

    rows: tuple[TimelineRow, ...]
    ticks: tuple[tuple[str, str], ...]
    zone: str
    window: TimeWindow
    begin: datetime
    left_out: int = 0

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
) -> Timeline | None:
    """Return the rows in the order of the steps' first events; None where nothing happened yet.

    ``until``: when the run ended, or now; what has not ended is drawn up to there. ``shown``: seconds from and to, of
    the whole. ``apart``: a row for each activation of this step that has a title. ``known``: what ``spent`` returned
    for the transitions, if the caller has it.
    """
    if not moves:
        return None
    begin, end = moves[0].at, max(until, moves[-1].at)
    window = window_of(shown, max((end - begin).total_seconds(), MIN_WINDOW))
    low, high = begin + timedelta(seconds=window.low), begin + timedelta(seconds=window.high)
    found = dict(known) if known is not None and not apart else intervals_by_state(moves, end, apart=apart)
    if apart:
        found = {name: spans for name, spans in found.items() if name in (titles or {})}
    if window.zoomed:
        found = {name: part for name, spans in found.items() if any((part := _cut(spans, low, high)).values())}
    going = {move.activation if apart else move.step for move in _last_transitions(moves) if move.state in OPEN}
    rows = tuple(
        _timeline_row(
            name, (titles or {}).get(name, ""), found[name], low, high, open_ended=name in going and not window.zoomed
        )
        for name in [*found][:MAX_ROWS]
    )
    ticks = tuple(_tick(begin, low + (high - low) * part / TICKS, end) for part in range(TICKS + 1))
    zone = offset(begin, timezone.get_current_timezone())
    left_out = max(len(found) - MAX_ROWS, 0)
    return Timeline(rows=rows, ticks=ticks, zone=zone, window=window, begin=begin, left_out=left_out)


def _last_transitions(moves: Sequence[StepTransition]) -> Iterable[StepTransition]:
    return {(move.step, move.activation): move for move in moves}.values()


def window_of(shown: Sequence[float] | None, whole: float) -> TimeWindow:
    """Return the requested window within the whole; the whole if that is empty."""
    low, high = shown or (0.0, whole)
    low, high = max(low, 0.0), min(high, whole)
    return (
        TimeWindow(low=low, high=high, whole=whole)
        if high - low >= MIN_WINDOW
        else TimeWindow(low=0.0, high=whole, whole=whole)
    )


def _cut(spans: Intervals, low: datetime, high: datetime) -> Intervals:
    return {state: clip(parts, low, high) for state, parts in spans.items()}


def _tick(begin: datetime, at: datetime, end: datetime) -> tuple[str, str]:
    """Return a clock time, as exact as the whole needs, and the time since the start."""
    clock, after = timezone.localtime(at), at - begin
    pattern = "%H:%M:%S" if end - begin < timedelta(days=1) else "%d %b %H:%M"
    return clock.strftime(pattern), f"+{duration(after)}" if after else "0"


def _timeline_row(
    step: str, title: str, spans: Intervals, low: datetime, high: datetime, *, open_ended: bool
) -> TimelineRow:
    merged = {state: parts for state in STATES if (parts := union(spans.get(state, ())))}
    words = ", ".join(
        f"{STATE_TEXTS[state]} {duration(length(parts))}" for state, parts in merged.items() if state in STATE_TEXTS
    )
    bars = tuple(bar for state, parts in merged.items() for bar in _bars(state, parts, low, high - low))
    ended = ", failed" if "failed" in merged else ""
    name = title or step_label(step)
    whole = total_busy(merged)
    growing = whole if open_ended else None
    return TimelineRow(step=step, title=name, bars=bars, words=f"{words}{ended}", busy=duration(whole), growing=growing)


def _bars(state: str, spans: Iterable[Interval], begin: datetime, whole: timedelta) -> list[TimelineBar]:
    drawn: list[tuple[float, float]] = []
    for low, high in spans:
        x, width = (low - begin) / whole * WIDTH, max((high - low) / whole * WIDTH, MIN_BAR)
        x = min(x, WIDTH - width)
        if drawn and x <= sum(drawn[-1]) + NEAR:
            before = drawn[-1]
            drawn[-1] = (before[0], max(x + width - before[0], before[1]))
        else:
            drawn.append((x, width))
    return [_bar(state, x, width, whole) for x, width in drawn]


def _bar(state: str, x: float, width: float, whole: timedelta) -> TimelineBar:
    words = "failed" if state == "failed" else f"{state} for {duration(whole * width / WIDTH)}"
    return TimelineBar(state=state, x=round(x, 2), width=round(width, 2), words=words)
