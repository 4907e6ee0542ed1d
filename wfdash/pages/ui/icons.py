"""Small elements of every row, rendered in Python: icons and risks. Icons are cached."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from zipfile import ZipFile

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

STYLES = {16: "micro", 20: "mini"}
SPACE = ' xmlns="http://www.w3.org/2000/svg"'
"""What an element in a page of HTML need not say."""
RISKS = {"low": "shield-check", "medium": "shield-exclamation", "high": "exclamation-triangle"}


@lru_cache(maxsize=500)
def draw_icon(name: str, size: int = 20, attributes: tuple[tuple[str, str], ...] = ()) -> SafeString:
    """Return a heroicon, hidden from screen readers; its style follows its size (16 micro, 20 mini, 24 outline)."""
    svg = _archive().read(f"{STYLES.get(size, 'outline')}/{name}.svg").decode().rstrip()
    head, end, drawn = svg.replace(SPACE, "", 1).partition(">")
    given = format_html_join("", ' {}="{}"', [("width", size), ("height", size), *attributes])
    return SafeString(f"{head}{given}{end}{drawn}")


@cache
def _archive() -> ZipFile:
    """Return the icons, whose list is read once: heroicons reads its thousand lines again for every icon."""
    return ZipFile(BytesIO((files("heroicons") / "heroicons.zip").read_bytes()))


def draw_risk(level: str) -> SafeString:
    """Return a risk chip for low, medium or high; any other word is shown without a colour."""
    kind = level if level in RISKS else "unknown"
    drawing = draw_icon(RISKS.get(level, "question-mark-circle"), 16)
    return format_html('<span class="chip tone is-{}">{}{} risk</span>', kind, drawing, level)
