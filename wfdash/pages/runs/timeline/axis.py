"""The axis of a timeline: from seconds since the start to places along it. Long waiting is folded. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from wfdash.pages.runs.intervals import Interval, Intervals, union

WIDTH = 1000.0
FOLDED_FROM = 1.0
"""Seconds in which nothing ran that are worth folding."""
FOLDED_SHARE = 4
"""... if they are at least a fourth of the time in which something ran; what is less leaves the rest legible."""
LEAST_DRAWN = 0.001
"""Seconds outside of the folds, without which there is nothing to see closer."""
MOST_FOLDS = 12
FOLD_WIDTH, FOLDS_WIDTH = 180.0, 480.0
"""Of the axis: of one fold at most, and of all of them together."""
DOING = (("running", ""), ("waiting", "waiting"), ("sleeping", "sleeping"), ("retrying", "until retry"))
"""What a run does in a fold, and its word; the first that applies. It runs where only one step is drawn."""
IDLE = "idle"


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A stretch in which no step ran, in seconds from the start. ``word``: what the run did instead."""

    low: float
    high: float
    word: str

    @property
    def length(self) -> float:
        """Return its seconds."""
        return self.high - self.low


@dataclass(frozen=True, kw_only=True)
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
    to_draw = high - low - sum(fold.length for fold in inside)
    if not inside or to_draw < LEAST_DRAWN:
        return to_scale(low, high)
    width = min(FOLD_WIDTH, FOLDS_WIDTH / len(inside))
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
