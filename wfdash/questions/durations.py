"""Durations as authors write them: ``"4h"``, ``"1d 12h"``, seconds or a ``timedelta``, wherever one is meant."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, PlainSerializer

Duration: TypeAlias = str | float | timedelta
"""``"30s"``, ``"30m"``, ``"4h"``, ``"2d"``, ``"1w"``, ``"1d 12h"``; a number means seconds."""

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


def read_duration(value: Any) -> Any:
    """Return a duration from text such as ``"4h"`` or ``"1d 12h"`` (s, m, h, d, w); anything else is left to pydantic
    to refuse.
    """
    if not isinstance(value, str):
        return value
    parts = PART.findall(value)
    if not parts or PART.sub("", value).strip():
        raise ValueError(f"{value!r} is no duration: write 30m, 4h, 2d or 1d 12h")
    return sum((timedelta(**{UNITS[unit]: float(number)}) for number, unit in parts), timedelta())


def seconds_in(value: Any) -> Any:
    """Return a duration in seconds; what is none is left to pydantic to refuse."""
    span = read_duration(value)
    return span.total_seconds() if isinstance(span, timedelta) else span


def span_of(value: Duration) -> timedelta:
    """Return a duration as a timedelta. ``ValueError`` says how to write one."""
    span = read_duration(value)
    if isinstance(span, timedelta):
        return span
    if isinstance(span, bool) or not isinstance(span, (int, float)) or not math.isfinite(span):
        raise ValueError(f"{value!r} is no duration: write 30m, 4h, 2d, seconds or a timedelta")
    return timedelta(seconds=span)


Span = Annotated[
    timedelta, BeforeValidator(read_duration), PlainSerializer(lambda span: span.total_seconds(), return_type=float)
]
Seconds = Annotated[float, BeforeValidator(seconds_in)]
