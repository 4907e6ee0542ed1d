"""Charts as data: pure layouts that templates render as SVG. Text is beside the SVG, so it may have any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString

from wfdash.web.pages.ui.times import duration, estimate, number

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
class ChartLine:
    """A line: ``path`` is SVG path data, ``dots`` are its points. ``style`` distinguishes lines without colour."""

    name: str
    style: str
    path: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What charts share; ``axis`` from top to bottom, ``head``: of the same as a table."""

    key: str
    title: str
    summary: str
    tone: str
    axis: tuple[str, ...]
    ticks: tuple[str, ...]
    head: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LineChart(Chart):
    """Lines that share one scale; ``rows``: the same as a table."""

    lines: tuple[ChartLine, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Of each slot its name, where it leads, and its durations."""
    slots: tuple[Bar, ...] = ()
    """Those in which something was measured: bars without blocks."""

    @property
    def picture(self) -> SafeString:
        """Return the linked slots and the lines as SVG, without a template."""
        return SafeString("".join([*map(_drawn_bar, self.slots), *map(_drawn_line, self.lines)]))

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
    known = [value for _, _, values in series for value in values if value is not None]
    top = nice_seconds(max(known, default=1.0))
    slots, rows = list[Bar](), list[tuple[str, str, tuple[str, ...]]]()
    for place, at in enumerate(names):
        measured = [values[place] for _, _, values in series]
        said = [f"{one[0]} {estimate(value)}" for one, value in zip(series, measured, strict=True) if value is not None]
        href = links[place] if links and said else ""
        if href:
            left, full = round(place * WIDTH / len(names), 2), round(WIDTH / len(names), 2)
            slots.append(Bar(left=left, full=full, words=f"{at}: {', '.join(said)}", href=href))
        rows.append((at, href, tuple(map(duration_or_dash, measured))))
    return LineChart(
        key=key,
        title=title,
        summary=_lines_summary(series, names),
        tone=tone,
        lines=tuple(_line(name, style, values, top) for name, style, values in series),
        axis=(duration(top), duration(top / 2), "0"),
        ticks=tuple(ticks),
        head=tuple(name for name, _, _ in series),
        rows=tuple(rows),
        slots=tuple(slots),
    )


def _drawn_line(line: ChartLine) -> str:
    style = escape(line.style)
    dots = (f'<path class="chart-dot {style}" d="M{x} {y}h0.01" />' for x, y in line.dots)
    return f'<path class="chart-line {style}" d="{line.path}" />{"".join(dots)}\n'


def _line_row(name: str, href: str, cells: Sequence[str]) -> str:
    shown = f'<a href="{escape(href)}">{escape(name)}</a>' if href else escape(name)
    numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th scope="row" class="nowrap">{shown}</th>{numbers}</tr>\n'


def duration_or_dash(seconds: float | None) -> str:
    """Return a duration to two digits, or a dash where there is none."""
    return "–" if seconds is None else estimate(seconds)


def _line(name: str, style: str, values: Values, top: float) -> ChartLine:
    place = WIDTH / max(len(values), 1)
    dots, path, joined = [], [], False
    for n, value in enumerate(values):
        if value is None:
            joined = False
            continue
        x, y = round((n + 0.5) * place, 2), round(HEIGHT * (1 - value / top), 2)
        path.append(f"{'L' if joined else 'M'}{x:g} {y:g}")
        dots.append((x, y))
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

    left: float
    full: float
    words: str
    href: str
    x: float = 0.0
    width: float = 0.0
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A number of a table, and where it leads."""

    text: str
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class BarChart(Chart):
    """Bars that share one scale; ``rows``: the same as a table."""

    bars: tuple[Bar, ...]
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
    say: Callable[[int], str] = number,
) -> BarChart:
    """Return a bar for each slot, under its name. ``top``: the common end of several charts' axes.

    ``links``: where each slot leads, ``href``: where all of it does; ``beside``: further columns of the table; ``say``:
    a count as text.
    """
    totals = [sum(one.counts[place] for one in series) for place in range(len(names))]
    top = top or nice_count(max(totals, default=0))
    links = links or [series[0].link(place) for place in range(len(names))]
    bars = tuple(
        _bar(series, place, len(names), names[place], top, links, say) for place, total in enumerate(totals) if total
    )
    return BarChart(
        key=key,
        title=title,
        summary=_bars_summary(totals, names, say),
        tone=tone,
        bars=bars,
        axis=(say(round(top)), say(round(top / 2)), "0"),
        ticks=tuple(ticks),
        head=(*(one.name for one in series), *(name for name, _ in beside)),
        rows=tuple(
            (
                name,
                (
                    *(Cell(text=say(one.counts[place]), href=one.link(place)) for one in series),
                    *(cells[place] for _, cells in beside),
                ),
            )
            for place, name in enumerate(names)
        ),
        total=say(sum(totals)),
        href=href if any(totals) else "",
        keys=tuple(one for one in series if any(one.counts)) if len(series) > 1 else (),
    )


def _drawn_bar(bar: Bar) -> str:
    """Return a slot of a drawing as SVG: a link over its whole height, with its text, and its blocks."""
    size, text = f'x="{bar.x}" width="{bar.width}"', escape(bar.words)
    blocks = (
        f'<rect class="chart-bar {escape(one.style)}" {size} y="{one.y}" height="{one.height}" />' for one in bar.blocks
    )
    return (
        f'<a class="chart-slot" href="{escape(bar.href)}" aria-label="{text}"><title>{text}</title>'
        f'<rect class="chart-hit" x="{bar.left}" width="{bar.full}" height="{HEIGHT:g}" />{"".join(blocks)}</a>\n'
    )


def _drawn_cell(cell: Cell) -> str:
    text = escape(cell.text)
    shown = f'<a href="{escape(cell.href)}">{text}</a>' if cell.href else text
    return f'<td class="number">{shown}</td>'


def _bar(
    series: Sequence[Series],
    place: int,
    slots: int,
    name: str,
    top: float,
    links: Sequence[str],
    say: Callable[[int], str],
) -> Bar:
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
        words=_words(series, place, name, say),
        href=links[place],
        blocks=tuple(blocks),
    )


def _words(series: Sequence[Series], place: int, name: str, say: Callable[[int], str]) -> str:
    if len(series) == 1:
        return f"{name}: {say(series[0].counts[place])}"
    parts = (f"{one.name.lower()} {say(one.counts[place])}" for one in series if one.counts[place])
    return f"{name}: {', '.join(parts)}"


def _bars_summary(counts: Sequence[int], names: Sequence[str], say: Callable[[int], str]) -> str:
    if not any(counts):
        return "None in this period"
    most = max(range(len(counts)), key=lambda n: counts[n])
    return f"{say(sum(counts))} in total, peak at {names[most]}: {say(counts[most])}"


# Sparklines: a bar for each slot, as high as a line of text. Pure.

SPARK_SLOT, SPARK_HEIGHT, SPARK_EDGE = 5.0, 20.0, 1.5


def sparkline(label: str, values: Sequence[int], titles: Sequence[str], bad: Sequence[int] = ()) -> SafeString:
    """Return a bar for each value as SVG, a dot where there is none. ``label``: all of them for screen readers.

    ``titles``: what each says under a pointer; ``bad``: the numbers that are drawn red in front of them.
    """
    top, foot = max([1, *values, *bad]), SPARK_HEIGHT - SPARK_EDGE
    parts = {"rest": [0] * len(titles), "all": values, "bad": bad}
    paths = ""
    for name, counts in parts.items():
        ends = (
            (n, foot - (foot - SPARK_EDGE) * count / top) for n, count in enumerate(counts) if count or name == "rest"
        )
        path = "".join(f"M{(n + 0.5) * SPARK_SLOT:g} {foot}V{min(end, foot - 0.01):.2f}" for n, end in ends)
        paths += f'<path class="spark-{name}" d="{path}" />' if path else ""
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
