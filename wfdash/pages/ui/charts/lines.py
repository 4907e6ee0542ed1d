"""Line charts: durations over time, with gaps where nothing was measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString

from wfdash.pages.ui.charts.scale import HEIGHT, WIDTH, linked_slot, nice_seconds
from wfdash.pages.ui.times import duration, estimate

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
        return SafeString("".join([*slots, *map(_drawn, self.lines)]))

    @property
    def table(self) -> SafeString:
        """Return the rows as HTML, without a template."""
        return SafeString("".join(_row(*row) for row in self.rows))


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
        summary=_summary(series, names),
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


def _drawn(line: ChartLine) -> str:
    style = escape(line.style)
    dots = (f'<path class="chart-dot {style}" d="M{dot.x} {dot.y}h0.01" />' for dot in line.dots)
    return f'<path class="chart-line {style}" d="{line.path}" />{"".join(dots)}\n'


def _row(name: str, href: str, cells: Sequence[str]) -> str:
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


def _summary(series: Sequence[tuple[str, str, Values]], names: Sequence[str]) -> str:
    parts = []
    for name, _, values in series:
        known = [(value, at) for value, at in zip(values, names, strict=True) if value is not None]
        if known:
            low, high = min(known), max(known)
            parts.append(f"{name} from {estimate(low[0])} ({low[1]}) to {estimate(high[0])} ({high[1]})")
    return "; ".join(parts) or "No data in this period"
