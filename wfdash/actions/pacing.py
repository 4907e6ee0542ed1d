"""How long work that is done in portions rests between two of them."""

from __future__ import annotations

REST = 3.0
"""Times as long as a portion took."""
LEAST, LONGEST = 0.02, 0.9
"""Seconds."""


def rest_after(seconds: float) -> float:
    """Return the seconds for others to write after a portion that took so many: most of the time is theirs."""
    return min(max(seconds * REST, LEAST), LONGEST)
