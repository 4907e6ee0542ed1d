"""Differences for display: of texts, of unified diffs, of JSON values."""

from __future__ import annotations

from wfdash.web.pages.ui.diff.lines import (
    DiffLine,
    LinePair,
    Sheet,
    TextDiff,
    TextRun,
    ValueChange,
    diff_text,
    diff_values,
    grouped,
)
from wfdash.web.pages.ui.diff.unified import MAX_FILES, FileDiff, Hunk, parse_unified

__all__ = [
    "MAX_FILES",
    "DiffLine",
    "FileDiff",
    "Hunk",
    "LinePair",
    "Sheet",
    "TextDiff",
    "TextRun",
    "ValueChange",
    "diff_text",
    "diff_values",
    "grouped",
    "parse_unified",
]
