"""Times as people write them in filters: spans such as ``4h``, days such as ``2030-01-31``. Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from wfdash.queries.search.language import INEQUALITIES

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
MAX_DURATION = timedelta(days=36_500)
DAY = timedelta(days=1)
Span = tuple[datetime | None, datetime | None]
"""From when (inclusive) until when (exclusive); None: without an end."""


def duration_of(value: str) -> timedelta | None:
    """Return ``4h`` as a duration of at most a century (s, m, h, d, w; parts add up: ``1d12h``), None if it is none."""
    if not value or SPAN.sub("", value):
        return None
    parts = (timedelta(**{UNITS[unit]: float(number)}) for number, unit in SPAN.findall(value))
    return timedelta(seconds=min(sum(part.total_seconds() for part in parts), MAX_DURATION.total_seconds()))


def moment_of(value: str, now: datetime) -> datetime | None:
    """Return what a bound names: a time from now (``4h``) or a day (``2030-01-31``, its start, UTC)."""
    span = duration_of(value)
    return now + span if span is not None else start_of(value)


def start_of(value: str) -> datetime | None:
    """Return the start of a day (``2030-01-31``, UTC), None for anything else."""
    day = day_of(value)
    return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None


def day_of(value: str) -> date | None:
    """Return the day a value names, None for anything else."""
    try:
        return date.fromisoformat(value) if len(value) == 10 else None
    except ValueError:
        return None


def is_time(value: str, sign: str) -> bool:
    """Return whether ``times_of`` understands a value: a day, ``today``, or a span with ``<`` or ``>``."""
    if not sign:
        return value.lower() == "today" or day_of(value) is not None
    return day_of(value) is not None or (sign in INEQUALITIES and duration_of(value) is not None)


def times_of(value: str, sign: str, now: datetime) -> Span:
    """Return the span in which a past time is meant.

    ``<2d`` is within two days, ``>2d`` longer ago; of days ``<`` is before it, ``>`` after it, ``<=`` with it.
    """
    span = duration_of(value)
    if span is not None:
        since = now - min(span, MAX_DURATION)
        return (since, None) if sign == "<" else (None, since)
    start = now.replace(hour=0, minute=0, second=0, microsecond=0) if value.lower() == "today" else start_of(value)
    if start is None:
        return None, None
    end = _next(start)
    return {"": (start, end), "<": (None, start), "<=": (None, end), ">": (end, None), ">=": (start, None)}[sign]


def _next(day: datetime) -> datetime | None:
    try:
        return day + DAY
    except OverflowError:
        return None
