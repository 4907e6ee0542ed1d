"""Charts as data: pure layouts that templates render as SVG. Text is beside the SVG, so it may have any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape

from django.utils.safestring import SafeString

from checkpoints.records import Pairs, frozen
from wfdash.web.pages.ui.times import duration, estimate, number

# Bars within the rows of a table: how large a value is compared to the others. Pure.

MIN_SHARE = 6.0


def share(value: float | None, most: float | None) -> float:
    """Return the bar's length of ``WIDTH``; a positive value always gets a visible bar."""
    if not value or not most:
        return 0.0
    return round(min(max(value / most * WIDTH, MIN_SHARE), WIDTH), 2)


# Charts over time: bars of one count or of several on top of each other, and lines with gaps where nothing was
# measured. A picture is a few paths with round ends, however many slots it has; what a slot says and where it leads is
# beside it, for the script that follows the pointer. The table with all links is made when it is asked for. Pure.

BASE = 95.0
"""Where bars begin: below it is room for the round end."""
RISE = 90.0
"""How high the end of the axis is above that."""
Values = Sequence[float | None]


@frozen
class Series:
    """One count per slot, and where each leads. ``style``: how its bars are drawn."""

    name: str
    counts: Sequence[int]
    links: Sequence[str] = ()
    style: str = ""

    def link(self, place: int) -> str:
        """Return where a slot's count leads, nowhere if it is zero."""
        return self.links[place] if self.links and self.counts[place] else ""


@frozen
class Cell:
    """A number of a table, and where it leads."""

    text: str
    href: str = ""


@frozen
class Chart:
    """A chart; ``axis`` from top to bottom. ``paths``: style and SVG path data of each part, the lowest layer first.

    ``said``: of each slot its values as text, empty where there is nothing. ``to``: where slots lead, with an asterisk
    for the time. ``head``, ``row_of``: the same as a table, with where the slot as a whole leads.
    """

    key: str
    title: str
    summary: str
    tone: str
    axis: tuple[str, ...]
    ticks: tuple[str, ...]
    names: tuple[str, ...]
    paths: Pairs
    said: tuple[str, ...]
    to: str
    head: tuple[str, ...]
    row_of: Callable[[int], tuple[str, tuple[Cell, ...]]]
    total: str = ""
    href: str = ""
    keys: tuple[Series, ...] = ()
    """The series, where there are several."""

    @property
    def picture(self) -> SafeString:
        """Return the drawing as SVG, without a template. Its element with the title has the id ``chart-KEY``."""
        name = f"chart-{self.key}"
        paths = "".join(f'<path class="chart-{escape(style)}" d="{data}" />' for style, data in self.paths)
        return SafeString(
            f'<svg class="chart-picture" viewBox="0 0 1000 100" preserveAspectRatio="none" role="img"'
            f' aria-labelledby="{name} {name}-words"><desc id="{name}-words">{escape(self.summary)}</desc>{paths}</svg>'
        )

    @property
    def values(self) -> str:
        """Return what the slots say, for the script."""
        return "|".join(text.replace("|", "/") for text in self.said)

    @property
    def table(self) -> SafeString:
        """Return the rows as HTML, without a template: a table has hundreds of cells."""
        rows = ((name, *self.row_of(place)) for place, name in enumerate(self.names))
        return SafeString(
            "".join(
                f'<tr><th scope="row" class="nowrap">{_linked(Cell(text=name, href=href))}</th>'
                f"{''.join(map(drawn_cell, cells))}</tr>\n"
                for name, href, cells in rows
            )
        )


def line_chart(
    key: str,
    title: str,
    series: Sequence[tuple[str, str, Values]],
    names: Sequence[str],
    *,
    ticks: Sequence[str] = (),
    links: Sequence[str] = (),
    to: str = "",
) -> Chart:
    """Return a line for each ``(name, style, seconds per slot)``; None where nothing was measured.

    ``links``: where each slot leads.
    """
    top = nice_seconds(max((value for _, _, values in series for value in values if value is not None), default=1.0))
    said = tuple(
        ", ".join(f"{name} {estimate(took)}" for name, _, values in series if (took := values[place]) is not None)
        for place in range(len(names))
    )

    def row(place: int) -> tuple[str, tuple[Cell, ...]]:
        href = links[place] if links and said[place] else ""
        return href, tuple(Cell(text=duration_or_dash(values[place])) for _, _, values in series)

    return Chart(
        key=key,
        title=title,
        summary=_lines_summary(series, names),
        tone="",
        paths=tuple(
            (f"{shape} {style}", draw(values, top))
            for _, style, values in reversed(series)
            for shape, draw in (("line", _line), ("dot", _dots))
        ),
        axis=(duration(top), duration(top / 2), "0"),
        ticks=tuple(ticks),
        names=tuple(names),
        said=said,
        to=to,
        head=tuple(name for name, _, _ in series),
        row_of=row,
        keys=tuple(Series(name=name, counts=(), style=style) for name, style, _ in series),
    )


def duration_or_dash(seconds: float | None) -> str:
    """Return a duration to two digits, or a dash where there is none."""
    return "–" if seconds is None else estimate(seconds)


def _line(values: Values, top: float) -> str:
    """Return the path of a line, broken where nothing was measured."""
    return "".join(
        f"{'L' if n and values[n - 1] is not None else 'M'}{_middle(n, len(values))} {_height(value, top)}"
        for n, value in enumerate(values)
        if value is not None
    )


def _dots(values: Values, top: float) -> str:
    """Return a path with a dot, a line of no length with round ends, for each value that was measured alone."""
    around = (None, *values, None)
    return "".join(
        f"M{_middle(n, len(values))} {_height(value, top)}h.01"
        for n, value in enumerate(values)
        if value is not None and around[n] is around[n + 2] is None
    )


def _middle(place: int, slots: int) -> str:
    return f"{(place + 0.5) * WIDTH / slots:.0f}"


def _height(value: float, top: float) -> str:
    return f"{BASE - min(value / top, 1.0) * RISE:.4g}"


def _lines_summary(series: Sequence[tuple[str, str, Values]], names: Sequence[str]) -> str:
    parts = []
    for name, _, values in series:
        known = [(value, at) for value, at in zip(values, names, strict=True) if value is not None]
        if known:
            low, high = min(known), max(known)
            parts.append(f"{name} from {estimate(low[0])} ({low[1]}) to {estimate(high[0])} ({high[1]})")
    return "; ".join(parts) or "No data in this period"


def bar_chart(
    key: str,
    title: str,
    series: Sequence[Series],
    names: Sequence[str],
    *,
    tone: str = "",
    top: float | None = None,
    ticks: Sequence[str] = (),
    links: Sequence[str] = (),
    to: str = "",
    href: str = "",
    beside: Sequence[tuple[str, Callable[[int], Cell]]] = (),
    say: Callable[[int], str] = number,
) -> Chart:
    """Return a bar for each slot, under its name. ``top``: the common end of several charts' axes.

    ``links``: where each slot leads, ``href``: where all of it does; ``beside``: further columns of the table; ``say``:
    a count as text.
    """
    totals = [sum(one.counts[place] for one in series) for place in range(len(names))]
    top = top or nice_count(max(totals, default=0))

    def row(place: int) -> tuple[str, tuple[Cell, ...]]:
        counts = (Cell(text=say(one.counts[place]), href=one.link(place)) for one in series)
        return links[place] if links and totals[place] else "", (*counts, *(cell(place) for _, cell in beside))

    return Chart(
        key=key,
        title=title,
        summary=_bars_summary(totals, names, say),
        tone=tone,
        paths=bar_paths([(one.style, one.counts) for one in series], top),
        axis=(say(round(top)), say(round(top / 2)), "0"),
        ticks=tuple(ticks),
        names=tuple(names),
        said=tuple(_words(series, place, say) for place in range(len(names))),
        to=to if any(totals) else "",
        head=(*(one.name for one in series), *(name for name, _ in beside)),
        row_of=row,
        total=say(sum(totals)),
        href=href if any(totals) else "",
        keys=tuple(one for one in series if any(one.counts)) if len(series) > 1 else (),
    )


def bar_paths(series: Sequence[tuple[str, Sequence[int]]], top: float) -> Pairs:
    """Return the bars of ``(style, counts)`` as paths: a mark for every slot, and over it from the highest down."""
    slots = len(series[0][1])
    feet, layers = [0] * slots, list[tuple[str, str]]()
    for style, counts in series:
        feet = [foot + count for foot, count in zip(feet, counts, strict=True)]
        bars = (f"M{_middle(n, slots)} {BASE:g}V{_height(feet[n], top)}" for n in range(slots) if counts[n])
        layers.append((f"bar {style}", "".join(bars)))
    rest = "".join(f"M{_middle(n, slots)} {BASE:g}h.01" for n in range(slots))
    return ("bar rest", rest), *(layer for layer in reversed(layers) if layer[1])


def drawn_cell(cell: Cell, label: str = "") -> str:
    """Return a number of a table as HTML; ``label``: its column, for a narrow page."""
    nothing, said = " none" if cell.text in {"0", "–"} else "", f' data-label="{escape(label)}"' if label else ""
    return f'<td class="number{nothing}"{said}>{_linked(cell)}</td>'


def _linked(cell: Cell) -> str:
    return f'<a href="{escape(cell.href)}">{escape(cell.text)}</a>' if cell.href else escape(cell.text)


def _words(series: Sequence[Series], place: int, say: Callable[[int], str]) -> str:
    if len(series) == 1:
        return say(series[0].counts[place]) if series[0].counts[place] else ""
    return ", ".join(f"{one.name.lower()} {say(one.counts[place])}" for one in series if one.counts[place])


def _bars_summary(counts: Sequence[int], names: Sequence[str], say: Callable[[int], str]) -> str:
    if not any(counts):
        return "None in this period"
    most = max(range(len(counts)), key=lambda n: counts[n])
    return f"{say(sum(counts))} in total, peak at {names[most]}: {say(counts[most])}"


# Sparklines: a bar for each slot, as high as a line of text. Pure.

SPARK_SLOT, SPARK_HEIGHT, SPARK_EDGE = 5.0, 20.0, 1.5


@lru_cache(maxsize=64)
def _spark(name: str, parts: tuple[float, ...]) -> str:
    """Return the path of bars, each a part of the height from 0 to 1; none where that is negative."""
    foot = SPARK_HEIGHT - SPARK_EDGE
    ends = ((n, foot - (foot - SPARK_EDGE) * part) for n, part in enumerate(parts) if part >= 0)
    path = "".join(f"M{(n + 0.5) * SPARK_SLOT:g} {foot}V{min(end, foot - 0.01):.2f}" for n, end in ends)
    return f'<path class="spark-{name}" d="{path}" />' if path else ""


def sparkline(label: str, values: Sequence[int], titles: Sequence[str], bad: Sequence[int] = ()) -> SafeString:
    """Return a bar for each value as SVG, a dot where there is none. ``label``: all of them for screen readers.

    ``titles``: what each says under a pointer; ``bad``: the numbers that are drawn red in front of them.
    """
    top, paths = max([1, *values, *bad]), _spark("rest", (*[0.0] * len(titles),))
    for name, counts in (("all", values), ("bad", bad)):
        paths += _spark(name, tuple(count / top if count else -1.0 for count in counts))
    hits = (
        f'<rect class="spark-hit" x="{n * SPARK_SLOT:g}" width="{SPARK_SLOT:g}" height="{SPARK_HEIGHT:g}">'
        f"<title>{escape(title)}</title></rect>"
        for n, title in enumerate(titles)
        if any(counts[n] for counts in (values, bad) if counts)
    )
    width = f"{len(titles) * SPARK_SLOT:g}"
    return SafeString(
        f'<svg class="spark" role="img" aria-label="{escape(label)}" width="{width}" height="{SPARK_HEIGHT:g}"'
        f' viewBox="0 0 {width} {SPARK_HEIGHT:g}">{paths}{"".join(hits)}</svg>'
    )


# What charts share: the end of an axis, a round number at or above the maximum. Pure.

WIDTH = 1000.0
HEIGHT = 100.0
"""Of every drawing; it is stretched to its place."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
ROUND_SECONDS = (
    *(base * 10.0**power for power in range(-4, 1) for base in (1, 2, 5)),
    *(10.0, 15.0, 30.0),
    *(MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(HOUR * n for n in (1, 2, 4, 8, 12)),
    *(DAY * n for n in (1, 2, 4, 7, 14, 30)),
)


def nice_count(most: float) -> float:
    """Return 2, 4, 10, 20, 40, 100 ...: even, so that its half is an integer."""
    if most <= 2:
        return 2.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(base * power for base in (1, 2, 4, 6, 8, 10, 20) if base * power >= most and base * power % 2 == 0)


def nice_seconds(most: float) -> float:
    """Return a round duration in seconds."""
    return next((length for length in ROUND_SECONDS if length >= most), math.ceil(most / (30 * DAY)) * 30 * DAY)
