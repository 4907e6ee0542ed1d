"""CSV for downloads, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from wfdash.domain.invisible import visible

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that spreadsheets run as a formula."""


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as lines of CSV."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def harmless(text: str) -> str:
    """Return a cell's text, no character of it invisible, quoted where a spreadsheet would run it."""
    return f"'{visible(text)}" if text.startswith(FORMULA) else visible(text)
