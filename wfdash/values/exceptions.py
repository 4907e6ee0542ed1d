"""Exceptions of authors' code as records: short enough to store, in characters that every database keeps."""

from __future__ import annotations

import traceback
from types import TracebackType

from checkpoints.records import ErrorInfo

LONGEST = 20_000
"""Characters of a message, and of a traceback."""


def message_of(error: BaseException) -> str:
    """Return an exception's message: cut, storable, and empty if ``str`` fails on it."""
    try:
        text = str(error)[:LONGEST]
    except Exception:
        return ""
    return _storable(text)


def error_info(error: BaseException, step: str | None = None, *, since: TracebackType | None = None) -> ErrorInfo:
    """Return an exception as a record. ``since``: where its traceback begins, by default where it was caught."""
    lines = traceback.format_exception(type(error), error, since or error.__traceback__)
    trace = _storable(_shortened("".join(lines)))
    return ErrorInfo(type=type(error).__name__, message=message_of(error), step=step, traceback=trace)


def _shortened(text: str) -> str:
    """Return a long text without its middle: a traceback begins with where it came from, and ends with what it was."""
    left_out = len(text) - LONGEST
    half = LONGEST // 2
    return text if left_out <= 0 else f"{text[:half]}\n... ({left_out} characters) ...\n{text[-half:]}"


def _storable(text: str) -> str:
    """Return text in which half a character (a lone surrogate) is written as its escape."""
    return text.encode(errors="backslashreplace").decode()
