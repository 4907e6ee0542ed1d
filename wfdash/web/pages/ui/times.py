"""Times, durations, numbers, counts and sizes as text, in the language that Django has activated.

``static/js/site/time.js`` is the twin that keeps the same texts current in the browser. Both are asked the cases of
``tests/pages/ui/time_cases.py``.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils.dateformat import format as written
from django.utils.formats import number_format
from django.utils.translation import ngettext

NEAR_TIME = timedelta(days=3)
"""What is farther away is shown by its date: "in 3 d" may be almost four."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SCALES = ((1, "ms", 1_000), (1_000, "s", 60), (60_000, "min", 60), (3_600_000, "h", 24), (86_400_000, "d", math.inf))


def relative(at: datetime, now: datetime | None = None, zone: tzinfo = UTC) -> str:
    """Return ``now``, ``8 min ago``, ``3 h 54 min ago``, ``in 1 d 5 h``; from three days on the date.

    Rounded down: no deadline seems later than it is. Of what is over, seconds are left out after a minute.
    """
    seconds = math.floor((at - (now or datetime.now(UTC))).total_seconds() + 0.5)
    if abs(seconds) < 5:
        return "now"
    if abs(seconds) >= NEAR_TIME.total_seconds():
        return f"{at.astimezone(zone):{'%Y-%m-%d %H:%M' if seconds > 0 else '%Y-%m-%d'}}"
    return f"in {_two_units(seconds)}" if seconds > 0 else f"{_age(-seconds)} ago"


def since(at: datetime, now: datetime | None = None, zone: tzinfo = UTC) -> str:
    """Return the duration up to now: ``a moment``, ``3 min``, ``2 h 12 min``, ``45 d``."""
    seconds = math.floor(((now or datetime.now(UTC)) - at).total_seconds() + 0.5)
    if seconds >= NEAR_TIME.total_seconds():
        return f"{seconds // _UNITS[0][0]} d"
    return "a moment" if seconds < 5 else _age(seconds)


def exact(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a time to the second with its zone: ``2026-11-21 05:09:10 UTC``, ``2026-11-21 06:09:10 UTC+1``."""
    return f"{to_second(at, zone)} {offset(at, zone)}"


def to_second(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a time to the second, where the zone is said beside it: ``2026-11-21 06:09:10``."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def minute(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a time to the minute, where the zone is said beside it: ``2026-11-21 06:09``."""
    return to_second(at, zone)[:16]


def weekday(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a day with its weekday: ``Sat 2026-11-21``."""
    return written(at.astimezone(zone), "D Y-m-d")


def clock(at: datetime, zone: tzinfo = UTC) -> str:
    """Return a time to the millisecond, for lists whose order matters: ``2026-11-21 06:09:10.123``."""
    return at.astimezone(zone).isoformat(" ", "milliseconds")[:23]


def elapsed(span: timedelta) -> str:
    """Return a distance from a start: ``+2.314 s``, ``+4 min 2.314 s``, from an hour on ``+3 h 54 min``."""
    ms = round(span / timedelta(milliseconds=1))
    sign, ms = ("-" if ms < 0 else "+"), abs(ms)
    if ms >= 3_600_000:
        return f"{sign}{duration(ms / 1000)}"
    minutes, rest = divmod(ms, 60_000)
    return f"{sign}{f'{minutes} min ' if minutes else ''}{rest // 1000}.{rest % 1000:03} s"


def offset(at: datetime, zone: tzinfo) -> str:
    """Return a zone's offset from UTC at that time: ``UTC``, ``UTC+1``, ``UTC-3:30``."""
    minutes = round((at.astimezone(zone).utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return "UTC" if not minutes else f"UTC{'-' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}"


def in_zone(at: datetime, zone: str, *, after: str = "") -> str:
    """Return the time in a zone: ``Mon 2026-11-23 09:00 CET``; in UTC if the zone is unknown.

    ``after``: the same time in another zone; the day is left out if it is the same.
    """
    try:
        there = at.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        there = at.astimezone(UTC)
    day, clock_time = weekday(there, there.tzinfo or UTC), there.strftime("%H:%M %Z")
    return clock_time if after.startswith(f"{day} ") else f"{day} {clock_time}"


def duration(seconds: float | timedelta) -> str:
    """Return a duration, rounded to two units: ``87 ms``, ``4.2 s``, ``43 min 17 s``, ``2 d 1 h``."""
    ms = _milliseconds(seconds)
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 9_950:
        tenths = (ms + 50) // 100
        return f"{number(tenths / 10, 1)} s"
    total = (ms + 500) // 1_000
    smaller = 3_600 if total >= 86_400 else 60 if total >= 3_600 else 1
    return _two_units((total + smaller // 2) // smaller * smaller)


def estimate(seconds: float | timedelta) -> str:
    """Return a duration to two digits, for statistics: ``870 ms``, ``4.3 min``, ``43 min``, ``2 d``."""
    ms = _milliseconds(seconds)
    amount, word = next((n, word) for unit, word, below in _SCALES if (n := float(f"{ms / unit:.2g}")) < below)
    return f"{max(amount, min(ms, 1)):g} {word}"


def _milliseconds(seconds: float | timedelta) -> int:
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    return math.floor(max(total, 0) * 1_000 + 0.5)


def _age(total: int) -> str:
    """Return a past duration: its seconds would flicker in every list."""
    return _two_units(total - total % 60 if total >= 60 else total)


def _two_units(total: int) -> str:
    index = next((i for i, (unit, _) in enumerate(_UNITS) if total >= unit), len(_UNITS) - 1)
    parts: list[str] = []
    for unit, word in _UNITS[index : index + 2]:
        amount, total = divmod(total, unit)
        if amount or not parts:
            parts.append(f"{amount} {word}")
    return " ".join(parts)


def number(count: float | Decimal, decimals: int | None = None) -> str:
    """Return a number with its thousands apart: ``12,345``; with a number of decimals ``12,345.0``."""
    if decimals is None and isinstance(count, int) and 0 <= count < 1_000:
        return str(int(count))  # In every language, and most numbers of a page are so small.
    return number_format(count, decimals, use_l10n=True, force_grouping=True)


def compact(count: int) -> str:
    """Return a large number to three digits: ``812``, ``12.4k``, ``1.21M``, ``3.4B``."""
    size = max(0, min((len(str(count)) - 1) // 3, 3))
    return number(Decimal(f"{float(f'{count / 1_000**size:.3g}'):g}")) + ("", "k", "M", "B")[size]


def money(amount: str | None, currency: str, unpriced: int = 0) -> str:
    """Return an amount with its currency: ``3.20 USD``, ``0.0042 USD``; ``≥`` where a part is unknown."""
    if amount is None:
        return "unknown"
    value = Decimal(amount)
    digits = 2 if not value or value >= 1 else max(2, 1 - value.adjusted())
    return f"{'≥ ' if unpriced else ''}{number(value, digits) if value else '0'} {currency}"


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number and what it counts: ``1 run``, ``12,345 runs``."""
    return f"{number(count)} {ngettext(one, several or f'{one}s', count)}"


def size(count: float) -> str:
    """Return a number of bytes in decimal units: ``812 B``, ``1.2 kB``, ``3.4 MB``."""
    if count < 1000:
        return f"{int(count)} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000 or unit == "GB":
            break
    return f"{number(count, 1 if count < 100 else 0)} {unit}"
