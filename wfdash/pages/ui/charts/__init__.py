"""Charts as data: pure layouts that templates render as SVG. Text is beside the SVG, so it may have any size."""

from __future__ import annotations

from wfdash.pages.ui.charts.bars import Bar, BarChart, Cell, Series, bar_chart
from wfdash.pages.ui.charts.lines import ChartLine, LineChart, duration_or_dash, line_chart
from wfdash.pages.ui.charts.scale import nice_count, nice_seconds
from wfdash.pages.ui.charts.shares import share

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
