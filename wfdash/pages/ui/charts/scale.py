"""What charts share: the end of an axis, a round number at or above the maximum; and slots that are links. Pure."""

from __future__ import annotations

import math
from html import escape

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
