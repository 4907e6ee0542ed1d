"""The timeline of a run: a row per step, an axis on which waiting is folded, and the window that is looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from checkpoints.records import Pairs, frozen
from wfdash.contract import Description
from wfdash.queries.runs.listing import RunView
from wfdash.queries.step_states import OPEN, StepTransition
from wfdash.web.pages.runs.header import address
from wfdash.web.pages.runs.step import StepPanel
from wfdash.web.pages.ui.event_text import step_label
from wfdash.web.pages.ui.times import clock, duration, elapsed, offset

# The timeline of a run's page: what is shown of it by its address, and the addresses of its buttons.

WALL = "wall"
"""The ``clock`` of a timeline on which nothing is folded."""


def timeline_context(
    request: HttpRequest,
    run: RunView,
    moved: list[StepTransition],
    end: datetime,
    described: Description | None,
    panel: StepPanel | None,
    found: dict[str, Intervals],
) -> dict[str, Any]:
    """Return the timeline of all steps, or, where a step with several activations is open, of those that are listed."""
    titles = {step.name: step.title for step in described.steps} if described else {}
    apart = panel is not None and panel.found.total > 1
    shown = _window_of(request)
    if apart and panel:
        rows = panel.found.rows
        titles = {row.id: row.name for row in rows}
        if shown is None and rows:
            last = max(row.ended or end for row in rows)
            shown = tuple((at - moved[0].at).total_seconds() for at in (rows[0].began, last))
    alone, wall = panel.name if apart and panel else "", request.GET.get("clock", "") == WALL
    drawn = timeline(moved, end, titles, shown=shown, apart=alone, known=found, fold=not wall, origin=run.created)
    return {
        "timeline": drawn,
        "zooms": _zooms(request, drawn, apart) if drawn else (),
        "clocks": _clocks(request, wall=wall) if drawn and drawn.foldable else (),
        "apart": apart,
    }


def _window_of(request: HttpRequest) -> tuple[float, ...] | None:
    try:
        low, high = float(request.GET.get("from", "")), float(request.GET.get("to", ""))
    except ValueError:
        return None
    return (low, high) if 0 <= low < high < 1e12 else None


def _clocks(request: HttpRequest, *, wall: bool) -> tuple[tuple[str, str, bool], ...]:
    """Return the ways to draw time: (label, address, whether it is this one)."""
    ways = (("Waiting folded", "", not wall), ("Wall clock", WALL, wall))
    return tuple((label, address(request, clock=name) + "#run-timeline", here) for label, name, here in ways)


def _zooms(request: HttpRequest, drawn: Timeline, apart: bool) -> tuple[tuple[str, str, str], ...]:
    """Return the zoom buttons: (label, icon, address), an empty address where it would change nothing."""
    window = drawn.window
    present = (window.low, window.high)
    ways = (
        ("Zoom in", "magnifying-glass-plus", window.closer),
        ("Zoom out", "magnifying-glass-minus", window.farther),
        ("Earlier", "chevron-left", window.moved(-1)),
        ("Later", "chevron-right", window.moved(1)),
    )
    made = [(label, icon, _zoomed(request, at) if at != present else "") for label, icon, at in ways]
    whole = ""
    if window.zoomed:  # for a step with several activations everything must be requested explicitly
        whole = _zoomed(request, (0.0, window.whole)) if apart else address(request, **{"from": "", "to": ""})
    return (*made, ("Fit", "arrows-pointing-out", whole))


def _zoomed(request: HttpRequest, at: tuple[float, float]) -> str:
    return address(request, **{"from": f"{at[0]:.3f}", "to": f"{at[1]:.3f}"}) + "#run-timeline"


# When each step ran and when it waited: one row of bars per step, or per activation of one. Pure.

MIN_BAR = 6.0
"""Minimum width of a bar: a step of milliseconds is visible on a phone, too."""
NEAR_BARS = 1.5
"""Bars of one state that are this close are drawn as one."""
MAX_ROWS = 40
STATE_TEXTS = {"running": "Running", "waiting": "Waiting for people", "sleeping": "Sleeping", "retrying": "Retry delay"}
LEGEND = {**STATE_TEXTS, "failed": "Failed"}
STATES = ("waiting", "sleeping", "retrying", "running", "failed")
"""Later ones are drawn over earlier ones."""


@frozen
class TimelineBar:
    """An interval in one state; ``x`` and ``width`` in thousandths of the axis. ``thin``: it lies in a fold."""

    state: str
    x: float
    width: float
    words: str
    thin: bool = False


@frozen
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


@frozen
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
    def keys(self) -> Pairs:
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
    last = {(move.step, move.activation): move for move in moves}.values()
    going = {move.activation if apart else move.step for move in last if move.state in OPEN}
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
            if before and before.thin == thin and first <= before.high + NEAR_BARS:
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


# The visible part of a timeline, and what its zoom buttons make of it. Pure.

MIN_WINDOW = 0.001
"""Seconds; the closest zoom."""


@frozen
class TimeWindow:
    """The visible part, in seconds from the start. ``axis``: of the whole; the buttons act on what one sees there."""

    low: float
    high: float
    axis: Axis

    @property
    def whole(self) -> float:
        """Return the seconds of the whole."""
        return self.axis.seconds[-1]

    @property
    def zoomed(self) -> bool:
        """Return whether it is less than the whole."""
        return self.low > 0 or self.high < self.whole

    @property
    def closer(self) -> tuple[float, float]:
        """Return the middle half."""
        low, high = self._places
        quarter = (high - low) / 4
        return self._times(low + quarter, high - quarter)

    @property
    def farther(self) -> tuple[float, float]:
        """Return twice as much."""
        low, high = self._places
        half = (high - low) / 2
        return self._times(max(low - half, 0.0), min(high + half, WIDTH))

    def moved(self, direction: int) -> tuple[float, float]:
        """Return a window half its width earlier (-1) or later (1), within the whole."""
        low, high = self._places
        by = direction * (high - low) / 2
        by = max(by, -low) if by < 0 else min(by, WIDTH - high)
        return self._times(low + by, high + by)

    @property
    def _places(self) -> tuple[float, float]:
        return self.axis.place(self.low), self.axis.place(self.high)

    def _times(self, low: float, high: float) -> tuple[float, float]:
        """Return the window between two places; this one where that would be too little to see."""
        times = self.axis.time(low), self.axis.time(high)
        return times if times[1] - times[0] >= MIN_WINDOW else (self.low, self.high)


def window_of(shown: Sequence[float] | None, axis: Axis) -> TimeWindow:
    """Return the requested window within the whole; the whole if that is empty."""
    whole = axis.seconds[-1]
    low, high = shown or (0.0, whole)
    low, high = max(low, 0.0), min(high, whole)
    if high - low < MIN_WINDOW:
        low, high = 0.0, whole
    return TimeWindow(low=low, high=high, axis=axis)


# What is written along a timeline: times below it, what is folded above it; as much as there is room for. Pure.

WIDE, NARROW = 13.0, 20.0
"""Width of a letter, in thousandths of the axis: beside other panels, and on a phone."""
LETTERS_BETWEEN_TEXTS = 2
"""Letters between two texts."""
MINUTE = timedelta(minutes=1)
FINE_SECONDS = 30.0
"""Seconds below which a window needs milliseconds at its times."""


@frozen
class AxisText:
    """A text at a place, in per cent of the axis. ``anchor``: which part of it is there. ``roomy``: not on a phone."""

    x: float
    words: str
    below: str = ""
    anchor: str = "middle"
    roomy: bool = False
    growing: timedelta | None = None
    """How long what it names lasts, while that grows."""
    rest: str = ""
    """Its words after the duration."""


def fold_texts(axis: Axis, end: float, *, growing: bool) -> tuple[AxisText, ...]:
    """Return how long each fold is and what the run did in it; the longest are named first, if not all have room.

    ``end``: of the whole, in seconds; ``growing``: the last fold that reaches it still does.
    """
    order = sorted(axis.folds, key=lambda fold: -fold.length)
    return _with_room([_fold_texts(axis, fold, growing=growing and fold.high >= end) for fold in order])


def _fold_texts(axis: Axis, fold: Fold, *, growing: bool) -> list[AxisText]:
    """Return the text of a fold, and a shorter one for where that has no room."""
    length = timedelta(seconds=fold.length)
    x = (axis.place(fold.low) + axis.place(fold.high)) / 2 / WIDTH * 100
    return [
        _within(AxisText(x=x, words=duration(length) + rest, rest=rest, growing=length if growing else None))
        for rest in dict.fromkeys((f" {fold.word}" if fold.word else "", ""))
    ]


def tick_texts(axis: Axis, begin: datetime, origin: datetime) -> tuple[AxisText, ...]:
    """Return times along the axis: both ends, where a fold ends, and between them.

    Each is the time of day, and how long after ``origin`` it is.
    """
    low, high = axis.seconds[0], axis.seconds[-1]
    after_folds = [fold.high for fold in sorted(axis.folds, key=lambda fold: -fold.length)]
    between = [axis.time(WIDTH * part / 4) for part in (2, 1, 3)]
    wanted = [low, high, *after_folds, *(at for at in between if not any(f.low < at < f.high for f in axis.folds))]
    shown = high - low - sum(fold.length for fold in axis.folds)
    moments = [(axis.place(at), begin + timedelta(seconds=at)) for at in dict.fromkeys(wanted)]
    texts = [[_tick(place, at, origin, fine=shown < FINE_SECONDS, days=high - low >= 86_400)] for place, at in moments]
    return _with_room(texts)


def _tick(place: float, at: datetime, origin: datetime, *, fine: bool, days: bool) -> AxisText:
    local = clock(at, timezone.get_current_timezone())
    words = local[5 if days else 11 : 23 if fine and not days else 16 if days else 19]
    since = elapsed(at - origin) if fine and at - origin < MINUTE else f"+{duration(at - origin)}"
    since = since if at != origin else "0"
    anchor = "start" if place <= 0 else "end" if place > WIDTH - 0.01 else "middle"
    return AxisText(x=round(place / WIDTH * 100, 2), words=words, below=since, anchor=anchor)


def _within(text: AxisText) -> AxisText:
    """Return the text, moved inwards as far as half of it would lie outside on a phone."""
    half = len(text.words) * NARROW / WIDTH * 50
    return replace(text, x=round(min(max(text.x, half), 100 - half), 2)) if half < 50 else replace(text, x=50.0)


def _with_room(choices: Sequence[Sequence[AxisText]]) -> tuple[AxisText, ...]:
    """Return of each the first text that has room beside those before it, in their order along the axis."""
    wide: list[AxisText] = []
    narrow: list[AxisText] = []
    for texts in choices:
        fitting = next((one for one in texts if not any(_meet(one, other, WIDE) for other in wide)), None)
        if fitting is None:
            continue
        roomy = any(_meet(fitting, other, NARROW) for other in narrow)
        wide.append(replace(fitting, roomy=roomy))
        if not roomy:
            narrow.append(fitting)
    return tuple(sorted(wide, key=lambda text: text.x))


def _meet(one: AxisText, other: AxisText, letter: float) -> bool:
    first, second = _extent(one, letter), _extent(other, letter)
    gap = LETTERS_BETWEEN_TEXTS * letter / 10
    return first[0] < second[1] + gap and second[0] < first[1] + gap


def _extent(text: AxisText, letter: float) -> tuple[float, float]:
    width = max(len(text.words), len(text.below)) * letter / 10
    begin = {"start": text.x, "middle": text.x - width / 2, "end": text.x - width}[text.anchor]
    return begin, begin + width


# The axis of a timeline: from seconds since the start to places along it. Long waiting is folded. Pure.

WIDTH = 1000.0
FOLDED_FROM = 1.0
"""Seconds in which nothing ran that are worth folding."""
FOLDED_SHARE = 4
"""... if they are at least a fourth of the time in which something ran; what is less leaves the rest legible."""
LEAST_DRAWN = 0.001
"""Seconds outside of the folds, without which there is nothing to see closer."""
MOST_FOLDS = 12
FOLD_WIDTH, FOLDS_WIDTH, MOST_WIDTH = 180.0, 480.0, 640.0
"""Of the axis: of one fold at most, of all of them together, and of all where they lasted longer than the rest: what a
run did for most of its time is most of the picture.
"""
DOING = (("running", ""), ("waiting", "waiting"), ("sleeping", "sleeping"), ("retrying", "until retry"))
"""What a run does in a fold, and its word; the first that applies. It runs where only one step is drawn."""
IDLE = "idle"


@frozen
class Fold:
    """A stretch in which no step ran, in seconds from the start. ``word``: what the run did instead."""

    low: float
    high: float
    word: str

    @property
    def length(self) -> float:
        """Return its seconds."""
        return self.high - self.low


@frozen
class Axis:
    """Seconds and their places, both ascending; between two of them the scale does not change."""

    seconds: tuple[float, ...]
    places: tuple[float, ...]
    folds: tuple[Fold, ...] = ()

    def place(self, seconds: float) -> float:
        """Return where a time lies."""
        return _between(self.seconds, self.places, seconds)

    def time(self, place: float) -> float:
        """Return the seconds at a place."""
        return _between(self.places, self.seconds, place)

    def pieces(self, low: float, high: float) -> Iterator[tuple[float, float, bool]]:
        """Yield the parts of an interval, cut at the folds: places from and to, and whether that part is folded."""
        at = low
        for fold in self.folds:
            if fold.high <= at or fold.low >= high:
                continue
            if fold.low > at:
                yield self.place(at), self.place(fold.low), False
            at = min(high, fold.high)
            yield self.place(max(low, fold.low)), self.place(at), True
        if at < high or low == high:
            yield self.place(at), self.place(high), False

    @property
    def points(self) -> str:
        """Return the points for the browser: ``seconds:place`` pairs."""
        return " ".join(f"{at:.3f}:{place:.2f}" for at, place in zip(self.seconds, self.places, strict=True))


def to_scale(low: float, high: float) -> Axis:
    """Return the axis of the wall clock."""
    return Axis(seconds=(low, high), places=(0.0, WIDTH))


def folded(low: float, high: float, folds: Sequence[Fold]) -> Axis:
    """Return the axis on which every fold within the window has the same width; the rest is drawn to scale."""
    inside = [
        Fold(low=max(fold.low, low), high=min(fold.high, high), word=fold.word)
        for fold in folds
        if fold.low < high and fold.high > low
    ]
    lost = sum(fold.length for fold in inside)
    to_draw = high - low - lost
    if not inside or to_draw < LEAST_DRAWN:
        return to_scale(low, high)
    width = MOST_WIDTH / len(inside) if lost > to_draw else min(FOLD_WIDTH, FOLDS_WIDTH / len(inside))
    scale = (WIDTH - width * len(inside)) / to_draw
    points = [(low, 0.0)]
    for fold in inside:
        begin = points[-1][1] + (fold.low - points[-1][0]) * scale
        points += [(fold.low, begin), (fold.high, begin + width)]
    points.append((high, WIDTH))
    kept = [one for one, following in pairwise(points) if one != following and one[0] < following[0]]
    seconds, places = zip(*[*kept, points[-1]], strict=True)
    return Axis(seconds=seconds, places=places, folds=tuple(inside))


def folds_of(
    found: Mapping[str, Intervals], begin: datetime, whole: float, *, run: Mapping[str, Intervals]
) -> tuple[Fold, ...]:
    """Return the longest stretches in which nothing of ``found`` ran, in order; none where it makes nothing clearer.

    ``run``: what all steps did, to say what the run did in them.
    """
    spans = [span for spans in found.values() for state in ("running", "failed") for span in spans.get(state, ())]
    busy = [_seconds(span, begin) for span in union(spans)]
    least = max(FOLDED_FROM, sum(high - low for low, high in busy) / FOLDED_SHARE)
    edges = [(0.0, 0.0), *busy, (whole, whole)]
    idle = [(before[1], after[0]) for before, after in pairwise(edges) if after[0] - before[1] >= least]
    longest = sorted(sorted(idle, key=lambda part: part[0] - part[1])[:MOST_FOLDS])
    return tuple(Fold(low=low, high=high, word=_word(run, begin, low, high)) for low, high in longest)


def _word(found: Mapping[str, Intervals], begin: datetime, low: float, high: float) -> str:
    middle = (low + high) / 2
    for state, word in DOING:
        spans = (_seconds(span, begin) for one in found.values() for span in one.get(state, ()))
        if any(first <= middle <= last for first, last in spans):
            return word
    return IDLE


def _seconds(span: Interval, begin: datetime) -> tuple[float, float]:
    return (span[0] - begin).total_seconds(), (span[1] - begin).total_seconds()


def _between(given: Sequence[float], wanted: Sequence[float], value: float) -> float:
    """Return what belongs to a value, linearly between the two points beside it; beyond the ends, that of the end."""
    n = min(max(bisect_right(given, value), 1), len(given) - 1)
    low, high = given[n - 1], given[n]
    if value >= high:
        return wanted[n]
    share = max((value - low) / (high - low), 0.0)
    return wanted[n - 1] + (wanted[n] - wanted[n - 1]) * share


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
