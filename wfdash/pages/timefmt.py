"""Times, durations and sizes in words. Pure; ``static/js/time.js`` renews the same words in the browser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

FAR = timedelta(days=30)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def relative(at: datetime, now: datetime | None = None) -> str:
    """Return ``now``, ``3 min ago``, ``in 2 h`` or, a month away, the date."""
    seconds = round((at - (now or datetime.now(UTC))).total_seconds())
    if abs(seconds) < 5:
        return "now"
    if abs(seconds) >= FAR.total_seconds():
        return at.astimezone(UTC).date().isoformat()
    unit, word = next((unit, word) for unit, word in _UNITS if abs(seconds) >= unit)
    amount = f"{abs(seconds) // unit} {word}"
    return f"{amount} ago" if seconds < 0 else f"in {amount}"


def since(at: datetime, now: datetime | None = None) -> str:
    """Return how long ago: ``3 min``, ``a moment``; a month away the date."""
    words = relative(at, now)
    return "a moment" if words == "now" else words.removesuffix(" ago")


def exact(at: datetime) -> str:
    """Return the moment to the second, in UTC: ``2026-11-21 05:09:10 UTC``."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def in_zone(at: datetime, zone: str, *, after: str = "") -> str:
    """Return the moment as a clock there shows it: ``Mon 23 Nov 2026, 09:00 CET``; in UTC if nobody knows the zone.

    ``after``: the same moment elsewhere; the day is not said again if it is the same.
    """
    try:
        there = at.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        there = at.astimezone(UTC)
    day = there.strftime("%a %-d %b %Y, ")
    return there.strftime("%H:%M %Z") if after.startswith(day) else day + there.strftime("%H:%M %Z")


def duration(seconds: float | timedelta) -> str:
    """Return a length of time in at most two units: ``87 ms``, ``4.2 s``, ``3 min 4 s``, ``2 d 1 h``."""
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
