"""Numbers in addresses and forms."""

from __future__ import annotations


def number_in(text: str) -> int:
    """Return the whole number that a text is, 0 for anything else: no database has more digits than it takes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
