"""Times as people write them in filters: spans such as ``4h``, days, hours, minutes and ranges. Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from wfdash.queries.search.language import INEQUALITIES

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
MAX_DURATION = timedelta(days=36_500)
DAY = timedelta(days=1)
MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:T(?P<hour>\d\d)(?::(?P<minute>\d\d))?)?(?P<offset>Z|[+-]\d\d:\d\d)?",
    re.ASCII | re.IGNORECASE,
)
"""A day, an hour or a minute, in UTC or at an offset from it."""
RANGE = ".."
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
    """Return whether ``times_of`` understands a value: ``today``, a day, hour or minute, a range of those, or a span
    with ``<`` or ``>``.
    """
    if not sign:
        return value.lower() == "today" or _range_of(value) is not None
    return _moment(value) is not None or (sign in INEQUALITIES and duration_of(value) is not None)


def times_of(value: str, sign: str, now: datetime) -> Span:
    """Return the span in which a past time is meant.

    ``<2d`` is within two days, ``>2d`` longer ago; of days (hours, minutes) ``<`` is before it, ``>`` after it, ``<=``
    with it. ``2026-01-31..2026-02-02`` is from the start of the first to the end of the last; either may be left out.
    """
    span = duration_of(value)
    if span is not None:
        since = now - min(span, MAX_DURATION)
        return (since, None) if sign == "<" else (None, since)
    if value.lower() == "today":
        value = f"{now.astimezone(UTC):%Y-%m-%d}"
    if not sign:
        return _range_of(value) or (None, None)
    start, end = _moment(value) or (None, None)
    return {"<": (None, start), "<=": (None, end), ">": (end, None), ">=": (start, None)}[sign]


def range_text(since: datetime, until: datetime) -> str:
    """Return the filter of what happened from one minute until before another, as short as it can be said.

    A whole day is ``2026-11-21``, in the zone of these times ``2026-11-21+01:00``; else both ends are named.
    """
    span = since.astimezone(UTC), until.astimezone(UTC)
    last = (span[1] - timedelta(minutes=1)).astimezone(since.tzinfo)
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M"):
        one, other = (f"{at.strftime(form)}{_offset_of(at)}" for at in (since, last))
        for text in (one, f"{one}{RANGE}{other}"):
            if _range_of(text) == span:
                return text
    raise ValueError(f"{since} to {until} are not whole minutes")


def _offset_of(at: datetime) -> str:
    offset = f"{at:%z}"
    return "" if offset in {"+0000", ""} else f"{offset[:3]}:{offset[3:5]}"


def _range_of(value: str) -> Span | None:
    """Return a day, hour, minute, or range of them as a span; None if it is none, or ends before it begins."""
    first, dots, last = value.partition(RANGE)
    if not dots:
        return _moment(value)
    start, end = _moment(first), _moment(last)
    if (first and start is None) or (last and end is None) or not (start or end):
        return None
    since, until = start[0] if start else None, end[1] if end else None
    return None if since and until and since >= until else (since, until)


def _moment(value: str) -> Span | None:
    """Return a day, hour or minute as a span, None if it is none."""
    found = MOMENT.fullmatch(value)
    if found is None:
        return None
    hour, minute, offset = found["hour"], found["minute"], (found["offset"] or "Z").upper().replace("Z", "+00:00")
    try:
        start = datetime.fromisoformat(f"{found['day']}T{hour or '00'}:{minute or '00'}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return start, _after(start, DAY if hour is None else timedelta(hours=1) if minute is None else timedelta(minutes=1))


def _after(start: datetime, length: timedelta) -> datetime | None:
    try:
        return start + length
    except OverflowError:
        return None
