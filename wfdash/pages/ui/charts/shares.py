"""Bars within the rows of a table: how large a value is beside the others. Pure."""

from __future__ import annotations

from wfdash.pages.ui.charts.scale import WIDTH

MIN_BAR = 6.0


def share(value: float | None, most: float | None) -> float:
    """Return the bar's length of ``WIDTH``; no value that is one gets a bar too short to be seen."""
    if not value or not most:
        return 0.0
    return round(min(max(value / most * WIDTH, MIN_BAR), WIDTH), 2)
