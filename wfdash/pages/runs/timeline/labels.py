"""What is written along a timeline: times below it, what is folded above it; as much as there is room for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils import timezone

from wfdash.pages.runs.timeline.axis import WIDTH, Axis, Fold
from wfdash.pages.ui.times import clock, duration, elapsed

WIDE, NARROW = 13.0, 20.0
"""Width of a letter, in thousandths of the axis: beside other panels, and on a phone."""
SPACE = 2
"""Letters between two texts."""
MINUTE = timedelta(minutes=1)
FINE = 30.0
"""Seconds below which a window needs milliseconds at its times."""


@dataclass(frozen=True, kw_only=True)
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
    texts = [[_tick(place, at, origin, fine=shown < FINE, days=high - low >= 86_400)] for place, at in moments]
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
    gap = SPACE * letter / 10
    return first[0] < second[1] + gap and second[0] < first[1] + gap


def _extent(text: AxisText, letter: float) -> tuple[float, float]:
    width = max(len(text.words), len(text.below)) * letter / 10
    begin = {"start": text.x, "middle": text.x - width / 2, "end": text.x - width}[text.anchor]
    return begin, begin + width
