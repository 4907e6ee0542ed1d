"""Bar charts: one bar per slot, of one count or of several on top of each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString

from wfdash.pages.ui.charts.scale import HEIGHT, WIDTH, linked_slot, nice_count
from wfdash.pages.ui.times import number

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
        return SafeString("".join(_row(name, cells) for name, cells in self.rows))


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
        summary=_summary(totals, names),
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


def _row(name: str, cells: Iterable[Cell]) -> str:
    return f'<tr><th scope="row" class="nowrap">{escape(name)}</th>{"".join(map(_drawn, cells))}</tr>\n'


def _drawn_bar(bar: Bar) -> str:
    size = f'x="{bar.x}" width="{bar.width}"'
    blocks = (
        f'<rect class="chart-bar {escape(one.style)}" {size} y="{one.y}" height="{one.height}" />' for one in bar.blocks
    )
    return linked_slot(bar.left, bar.full, bar.words, bar.href, "".join(blocks))


def _drawn(cell: Cell) -> str:
    text = escape(cell.text)
    shown = f'<a href="{escape(cell.href)}">{text}</a>' if cell.href else text
    return f'<td class="number">{shown}</td>'


def _bar(series: Sequence[Series], place: int, slots: int, name: str, top: float, links: Sequence[str]) -> Bar:
    width = WIDTH / max(slots, 1)
    return Bar(
        x=round(place * width + width * GAP / 2, 2),
        width=round(width * (1 - GAP), 2),
        left=round(place * width, 2),
        full=round(width, 2),
        words=_words(series, place, name),
        href=links[place],
        blocks=_blocks(series, place, top),
    )


def _blocks(series: Sequence[Series], place: int, top: float) -> tuple[Block, ...]:
    blocks, foot = [], HEIGHT
    for one in series:
        if one.counts[place]:
            height = max(one.counts[place] / top * HEIGHT, MIN_BAR)
            foot -= height
            blocks.append(Block(y=round(max(foot, 0), 2), height=round(height, 2), style=one.style))
    return tuple(blocks)


def _words(series: Sequence[Series], place: int, name: str) -> str:
    if len(series) == 1:
        return f"{name}: {number(series[0].counts[place])}"
    parts = (f"{one.name.lower()} {number(one.counts[place])}" for one in series if one.counts[place])
    return f"{name}: {', '.join(parts)}"


def _summary(counts: Sequence[int], names: Sequence[str]) -> str:
    if not any(counts):
        return "None in this period"
    most = max(range(len(counts)), key=lambda n: counts[n])
    return f"{number(sum(counts))} in total, peak at {names[most]}: {number(counts[most])}"
