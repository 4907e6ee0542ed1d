"""Charts as data: pure layouts that templates render as SVG. Text is beside the SVG, so it may have any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString

from wfdash.web.pages.ui.times import duration, estimate, number

__all__ = [
    "Bar",
    "BarChart",
    "Cell",
    "ChartLine",
    "LineChart",
    "Series",
    "bar_chart",
    "duration_or_dash",
    "line_chart",
    "nice_count",
    "nice_seconds",
    "share",
]


# Bars within the rows of a table: how large a value is compared to the others. Pure.

MIN_SHARE = 6.0


def share(value: float | None, most: float | None) -> float:
    """Return the bar's length of ``WIDTH``; a positive value always gets a visible bar."""
    if not value or not most:
        return 0.0
    return round(min(max(value / most * WIDTH, MIN_SHARE), WIDTH), 2)


# Line charts: durations over time, with gaps where nothing was measured. Pure.

Values = Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A measured point: its position and its text."""

    x: float
    y: float
    words: str


@dataclass(frozen=True, kw_only=True)
class LinkedSlot:
    """A slot in which something was measured: its place, its text, and where it leads."""

    left: float
    full: float
    words: str
    href: str


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A line: ``path`` is SVG path data. ``style`` distinguishes lines without colour."""

    name: str
    style: str
    path: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """Lines that share one scale; ``axis`` from top to bottom, ``rows``: the same as a table."""

    key: str
    title: str
    summary: str
    tone: str
    lines: tuple[ChartLine, ...]
    axis: tuple[str, ...]
    ticks: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Of each slot its name, where it leads, and its durations."""
    slots: tuple[LinkedSlot, ...] = ()

    @property
    def picture(self) -> SafeString:
        """Return the linked slots and the lines as SVG, without a template."""
        slots = (linked_slot(one.left, one.full, one.words, one.href) for one in self.slots)
        return SafeString("".join([*slots, *map(_drawn_line, self.lines)]))

    @property
    def table(self) -> SafeString:
        """Return the rows as HTML, without a template."""
        return SafeString("".join(_line_row(*row) for row in self.rows))


def line_chart(
    key: str,
    title: str,
    series: Sequence[tuple[str, str, Values]],
    names: Sequence[str],
    *,
    tone: str,
    ticks: Sequence[str] = (),
    links: Sequence[str] = (),
) -> LineChart:
    """Return a line for each ``(name, style, seconds per slot)``; None where nothing was measured.

    ``links``: where each slot leads.
    """
    linked = _linked(series, names, links) if links else ()
    hrefs = {slot.left: slot.href for slot in linked}
    known = [value for _, _, values in series for value in values if value is not None]
    top = nice_seconds(max(known, default=1.0))
    return LineChart(
        key=key,
        title=title,
        summary=_lines_summary(series, names),
        tone=tone,
        lines=tuple(_line(name, style, values, names, top) for name, style, values in series),
        axis=(duration(top), duration(top / 2), "0"),
        ticks=tuple(ticks),
        head=tuple(name for name, _, _ in series),
        rows=tuple(
            (
                at,
                hrefs.get(_left(place, len(names)), ""),
                tuple(duration_or_dash(values[place]) for _, _, values in series),
            )
            for place, at in enumerate(names)
        ),
        slots=linked,
    )


def _drawn_line(line: ChartLine) -> str:
    style = escape(line.style)
    dots = (f'<path class="chart-dot {style}" d="M{dot.x} {dot.y}h0.01" />' for dot in line.dots)
    return f'<path class="chart-line {style}" d="{line.path}" />{"".join(dots)}\n'


def _line_row(name: str, href: str, cells: Sequence[str]) -> str:
    shown = f'<a href="{escape(href)}">{escape(name)}</a>' if href else escape(name)
    numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th scope="row" class="nowrap">{shown}</th>{numbers}</tr>\n'


def duration_or_dash(seconds: float | None) -> str:
    """Return a duration to two digits, or a dash where there is none."""
    return "–" if seconds is None else estimate(seconds)


def _left(place: int, slots: int) -> float:
    return round(place * WIDTH / max(slots, 1), 2)


def _linked(
    series: Sequence[tuple[str, str, Values]], names: Sequence[str], links: Sequence[str]
) -> tuple[LinkedSlot, ...]:
    found = []
    for place, at in enumerate(names):
        said = [f"{name} {estimate(known)}" for name, _, values in series if (known := values[place]) is not None]
        if said:
            words, full = f"{at}: {', '.join(said)}", round(WIDTH / len(names), 2)
            found.append(LinkedSlot(left=_left(place, len(names)), full=full, words=words, href=links[place]))
    return tuple(found)


def _line(name: str, style: str, values: Values, names: Sequence[str], top: float) -> ChartLine:
    place = WIDTH / max(len(values), 1)
    dots, path, joined = [], [], False
    for n, value in enumerate(values):
        if value is None:
            joined = False
            continue
        x, y = round((n + 0.5) * place, 2), round(HEIGHT * (1 - value / top), 2)
        path.append(f"{'L' if joined else 'M'}{x:g} {y:g}")
        dots.append(Dot(x=x, y=y, words=f"{names[n]}, {name}: {estimate(value)}"))
        joined = True
    return ChartLine(name=name, style=style, path="".join(path), dots=tuple(dots))


def _lines_summary(series: Sequence[tuple[str, str, Values]], names: Sequence[str]) -> str:
    parts = []
    for name, _, values in series:
        known = [(value, at) for value, at in zip(values, names, strict=True) if value is not None]
        if known:
            low, high = min(known), max(known)
            parts.append(f"{name} from {estimate(low[0])} ({low[1]}) to {estimate(high[0])} ({high[1]})")
    return "; ".join(parts) or "No data in this period"


# Bar charts: one bar per slot, of one count or of several on top of each other. Pure.

GAP = 0.22
"""The part of its slot that a bar leaves free."""
MIN_BAR = 1.5
"""Minimum height of a bar that is not zero."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One count per slot, and where each leads. ``style``: how its bars are drawn."""

    name: str
    counts: Sequence[int]
    links: Sequence[str] = ()
    style: str = ""

    def link(self, place: int) -> str:
        """Return where a slot's count leads, nowhere if it is zero."""
        return self.links[place] if self.links and self.counts[place] else ""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a bar, from ``y`` down."""

    y: float
    height: float
    style: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a slot holds: its blocks, its text, and where it leads. ``left``, ``full``: the whole slot."""

    x: float
    width: float
    left: float
    full: float
    words: str
    href: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number of a table, and where it leads."""

    text: str
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class BarChart:
    """Bars that share one scale; ``axis`` from top to bottom, ``rows``: the same as a table under ``head``."""

    key: str
    title: str
    summary: str
    tone: str
    bars: tuple[Bar, ...]
    axis: tuple[str, ...]
    ticks: tuple[str, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    total: str
    href: str = ""
    keys: tuple[Series, ...] = ()
    """The series, where there are several."""

    @property
    def picture(self) -> SafeString:
        """Return the bars as SVG, without a template: a page has hundreds of them."""
        return SafeString("".join(map(_drawn_bar, self.bars)))

    @property
    def table(self) -> SafeString:
        """Return the rows as HTML, without a template: a page has thousands of their cells."""
        return SafeString(
            "".join(
                f'<tr><th scope="row" class="nowrap">{escape(name)}</th>{"".join(map(_drawn_cell, cells))}</tr>\n'
                for name, cells in self.rows
            )
        )


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
    href: str = "",
    beside: Sequence[tuple[str, Sequence[Cell]]] = (),
) -> BarChart:
    """Return a bar for each slot, under its name. ``top``: the common end of several charts' axes.

    ``links``: where each slot leads, ``href``: where all of it does; ``beside``: further columns of the table.
    """
    totals = [sum(one.counts[place] for one in series) for place in range(len(names))]
    top = top or nice_count(max(totals, default=0))
    links = links or [series[0].link(place) for place in range(len(names))]
    bars = tuple(
        _bar(series, place, len(names), names[place], top, links) for place, total in enumerate(totals) if total
    )
    return BarChart(
        key=key,
        title=title,
        summary=_bars_summary(totals, names),
        tone=tone,
        bars=bars,
        axis=(number(round(top)), number(round(top / 2)), "0"),
        ticks=tuple(ticks),
        head=(*(one.name for one in series), *(name for name, _ in beside)),
        rows=tuple((name, _cells(series, place, beside)) for place, name in enumerate(names)),
        total=number(sum(totals)),
        href=href if any(totals) else "",
        keys=tuple(one for one in series if any(one.counts)) if len(series) > 1 else (),
    )


def _cells(series: Sequence[Series], place: int, beside: Sequence[tuple[str, Sequence[Cell]]]) -> tuple[Cell, ...]:
    counts = (Cell(text=number(one.counts[place]), href=one.link(place)) for one in series)
    return (*counts, *(cells[place] for _, cells in beside))


def _drawn_bar(bar: Bar) -> str:
    size = f'x="{bar.x}" width="{bar.width}"'
    blocks = (
        f'<rect class="chart-bar {escape(one.style)}" {size} y="{one.y}" height="{one.height}" />' for one in bar.blocks
    )
    return linked_slot(bar.left, bar.full, bar.words, bar.href, "".join(blocks))


def _drawn_cell(cell: Cell) -> str:
    text = escape(cell.text)
    shown = f'<a href="{escape(cell.href)}">{text}</a>' if cell.href else text
    return f'<td class="number">{shown}</td>'


def _bar(series: Sequence[Series], place: int, slots: int, name: str, top: float, links: Sequence[str]) -> Bar:
    width = WIDTH / max(slots, 1)
    blocks, foot = [], HEIGHT
    for one in series:
        if one.counts[place]:
            height = max(one.counts[place] / top * HEIGHT, MIN_BAR)
            foot -= height
            blocks.append(Block(y=round(max(foot, 0), 2), height=round(height, 2), style=one.style))
    return Bar(
        x=round(place * width + width * GAP / 2, 2),
        width=round(width * (1 - GAP), 2),
        left=round(place * width, 2),
        full=round(width, 2),
        words=_words(series, place, name),
        href=links[place],
        blocks=tuple(blocks),
    )


def _words(series: Sequence[Series], place: int, name: str) -> str:
    if len(series) == 1:
        return f"{name}: {number(series[0].counts[place])}"
    parts = (f"{one.name.lower()} {number(one.counts[place])}" for one in series if one.counts[place])
    return f"{name}: {', '.join(parts)}"


def _bars_summary(counts: Sequence[int], names: Sequence[str]) -> str:
    if not any(counts):
        return "None in this period"
    most = max(range(len(counts)), key=lambda n: counts[n])
    return f"{number(sum(counts))} in total, peak at {names[most]}: {number(counts[most])}"


# What charts share: the end of an axis, a round number at or above the maximum; and slots that are links. Pure.

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


def linked_slot(left: float, full: float, words: str, href: str, shown: str = "") -> str:
    """Return a slot of a drawing as SVG: a link over its whole height, with its text, and what is shown in it."""
    text = escape(words)
    return (
        f'<a class="chart-slot" href="{escape(href)}" aria-label="{text}"><title>{text}</title>'
        f'<rect class="chart-hit" x="{left}" width="{full}" height="{HEIGHT:g}" />{shown}</a>\n'
    )
