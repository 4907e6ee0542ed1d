"""Bar charts: one bar per slot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wfdash.pages.ui.charts.scale import HEIGHT, WIDTH, nice_count

GAP = 0.22
"""The part of its slot that a bar leaves free."""
MIN_BAR = 1.5
"""Minimum height of a bar that is not zero."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar from ``y`` down to the base line, and its text."""

    x: float
    y: float
    width: float
    height: float
    words: str


@dataclass(frozen=True, kw_only=True)
class BarChart:
    """Bars that share one scale; ``axis`` from top to bottom, ``rows``: the same as a table."""

    key: str
    title: str
    summary: str
    tone: str
    bars: tuple[Bar, ...]
    axis: tuple[str, ...]
    ticks: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    total: str


def bar_chart(
    key: str,
    title: str,
    counts: Sequence[int],
    names: Sequence[str],
    *,
    tone: str,
    top: float | None = None,
    ticks: Sequence[str] = (),
) -> BarChart:
    """Return a bar for each count, under the name of its slot. ``top``: the common end of several charts' axes."""
    top = top or nice_count(max(counts, default=0))
    place = WIDTH / max(len(counts), 1)
    bars = tuple(
        _bar(n * place + place * GAP / 2, place * (1 - GAP), count / top, f"{name}: {count:,}")
        for n, (count, name) in enumerate(zip(counts, names, strict=True))
        if count
    )
    return BarChart(
        key=key,
        title=title,
        summary=_summary(counts, names),
        tone=tone,
        bars=bars,
        axis=(f"{top:,.0f}", f"{top / 2:,.0f}", "0"),
        ticks=tuple(ticks),
        rows=tuple((name, f"{count:,}") for name, count in zip(names, counts, strict=True)),
        total=f"{sum(counts):,}",
    )


def _bar(x: float, width: float, part: float, words: str) -> Bar:
    height = max(part * HEIGHT, MIN_BAR)
    return Bar(x=round(x, 2), y=round(HEIGHT - height, 2), width=round(width, 2), height=round(height, 2), words=words)


def _summary(counts: Sequence[int], names: Sequence[str]) -> str:
    if not any(counts):
        return "None in this period"
    most = max(range(len(counts)), key=lambda n: counts[n])
    return f"{sum(counts):,} in total, peak at {names[most]}: {counts[most]:,}"
