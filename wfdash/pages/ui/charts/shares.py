"""Bars within the rows of a table: how large a value is compared to the others. Pure."""

from __future__ import annotations

from wfdash.pages.ui.charts.scale import WIDTH

MIN_BAR = 6.0


def share(value: float | None, most: float | None) -> float:
    """Return the bar's length of ``WIDTH``; a positive value always gets a visible bar."""
    if not value or not most:
        return 0.0
    return round(min(max(value / most * WIDTH, MIN_BAR), WIDTH), 2)
