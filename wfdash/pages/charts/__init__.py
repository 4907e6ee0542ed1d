"""Charts as data: pure layouts that templates draw as SVG. Words stand beside the SVG, so it may have any size."""

from __future__ import annotations

from wfdash.pages.charts.bars import Bar, BarChart, bar_chart
from wfdash.pages.charts.lines import Line, LineChart, line_chart, said
from wfdash.pages.charts.scale import nice_count, nice_seconds
from wfdash.pages.charts.shares import share

__all__ = [
    "Bar",
    "BarChart",
    "Line",
    "LineChart",
    "bar_chart",
    "line_chart",
    "nice_count",
    "nice_seconds",
    "said",
    "share",
]
