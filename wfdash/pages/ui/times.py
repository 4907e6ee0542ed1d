"""Times, durations and sizes as text. Pure; ``static/js/site/time.js`` updates the same texts in the browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

FAR = timedelta(days=30)
SOON = timedelta(days=3)
"""Later times are shown by their date: "in 3 d" may be almost four."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def relative(at: datetime, now: datetime | None = None, zone: tzinfo = UTC) -> str:
    """Return ``now``, ``3 min ago``, a month ago the date; ``in 1 d 5 h``, from three days on date and time."""
    seconds = round((at - (now or datetime.now(UTC))).total_seconds())
    if abs(seconds) < 5:
        return "now"
    if seconds >= SOON.total_seconds():
        return f"{at.astimezone(zone):%Y-%m-%d %H:%M}"
    if seconds > 0:
        return f"in {_two_units(seconds)}"
    if -seconds >= FAR.total_seconds():
        return at.astimezone(zone).date().isoformat()
    unit, word = next((unit, word) for unit, word in _UNITS if -seconds >= unit)
    return f"{-seconds // unit} {word} ago"


def since(at: datetime, now: datetime | None = None, zone: tzinfo = UTC) -> str:
    """Return the duration up to now: ``3 min``, ``a moment``, ``45 d``."""
    now = now or datetime.now(UTC)
    if now - at >= FAR:
        return f"{(now - at).days} d"
    words = relative(at, now, zone)
    return "a moment" if words == "now" else words.removesuffix(" ago")


def exact(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a time to the second with its zone: ``2026-11-21 05:09:10 UTC``, ``2026-11-21 06:09:10 UTC+1``."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S} {offset(at, zone)}"


def clock(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a time to the millisecond, for lists whose order matters: ``2026-11-21 06:09:10.123``."""
    return at.astimezone(zone).isoformat(" ", "milliseconds")[:23]


def offset(at: datetime, zone: tzinfo) -> str:
    """Return a zone's offset from UTC at that time: ``UTC``, ``UTC+1``, ``UTC-3:30``."""
    minutes = round((at.astimezone(zone).utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return "UTC" if not minutes else f"UTC{'-' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}"


def in_zone(at: datetime, zone: str, *, after: str = "") -> str:
    """Return the time in a zone: ``Mon 23 Nov 2026, 09:00 CET``; in UTC if the zone is unknown.

    ``after``: the same time in another zone; the day is left out if it is the same.
    """
    try:
        there = at.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        there = at.astimezone(UTC)
    day = there.strftime("%a %-d %b %Y, ")
    return there.strftime("%H:%M %Z") if after.startswith(day) else day + there.strftime("%H:%M %Z")


def duration(seconds: float | timedelta) -> str:
    """Return a duration in at most two units: ``87 ms``, ``4.2 s``, ``3 min 4 s``, ``2 d 1 h``."""
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if total < 1:
        return f"{max(total, 0) * 1000:.0f} ms"
    if total < 10:
        return f"{total:.1f} s"
    return _two_units(round(total))


def _two_units(total: int) -> str:
    index = next((i for i, (unit, _) in enumerate(_UNITS) if total >= unit), len(_UNITS) - 1)
    parts: list[str] = []
    for unit, word in _UNITS[index : index + 2]:
        amount, total = divmod(total, unit)
        if amount or not parts:
            parts.append(f"{amount} {word}")
    return " ".join(parts)


def size(count: float) -> str:
    """Return a number of bytes in decimal units: ``812 B``, ``1.2 kB``, ``3.4 MB``."""
    if count < 1000:
        return f"{int(count)} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000 or unit == "GB":
            break
    return f"{count:.1f} {unit}" if count < 100 else f"{count:.0f} {unit}"
