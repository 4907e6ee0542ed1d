"""Small elements of every row, rendered in Python: icons and risks. Icons are cached."""

from __future__ import annotations

from functools import lru_cache

from django.utils.html import format_html
from django.utils.safestring import SafeString
from heroicons.templatetags import heroicons

RISKS = {"low": "shield-check", "medium": "shield-exclamation", "high": "exclamation-triangle"}


@lru_cache(maxsize=500)
def draw_icon(name: str, size: int = 20, attributes: tuple[tuple[str, str], ...] = ()) -> SafeString:
    """Return a heroicon, hidden from screen readers; its style follows its size (16 micro, 20 mini, 24 outline)."""
    draw = {16: heroicons.heroicon_micro, 20: heroicons.heroicon_mini}.get(size, heroicons.heroicon_outline)
    return SafeString(draw(name, size=size, aria_hidden="true", **dict(attributes)))


def draw_risk(level: str) -> SafeString:
    """Return a risk chip for low, medium or high; any other word is shown without a colour."""
    kind = level if level in RISKS else "unknown"
    drawing = draw_icon(RISKS.get(level, "question-mark-circle"), 16)
    return format_html('<span class="chip tone is-{}">{}{} risk</span>', kind, drawing, level)
