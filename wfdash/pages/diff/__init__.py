"""Differences for people: of texts, of unified diffs, of JSON values."""

from __future__ import annotations

from wfdash.pages.diff.lines import Line, Pair, Piece, TextDiff, diff_text
from wfdash.pages.diff.trees import MAX_DRAWN, Change, diff_values, grouped
from wfdash.pages.diff.unified import FileDiff, Hunk, parse_unified

__all__ = [
    "MAX_DRAWN",
    "Change",
    "FileDiff",
    "Hunk",
    "Line",
    "Pair",
    "Piece",
    "TextDiff",
    "diff_text",
    "diff_values",
    "grouped",
    "parse_unified",
]
