"""Markup without the whitespace between its parts, so that a test does not depend on how a template is indented."""

from __future__ import annotations

import re


def flat(markup: str) -> str:
    """Return markup on one line: no space beside a tag, one space between words and between attributes."""
    return re.sub(r"\s*([<>])\s*", r"\1", re.sub(r"\s+", " ", markup))
