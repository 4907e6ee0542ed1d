"""Durations as people write them (``1 h 30 min``) and as ISO 8601 does (``PT1H30M``). Pure."""

from __future__ import annotations

import re
from decimal import Decimal

_ISO = re.compile(r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d+)?)S)?)?", re.ASCII)
_PART = re.compile(r"(\d+(?:[.,]\d+)?)\s*([a-z]+)", re.ASCII)
_WORDS = re.compile(r"([+-]?)\s*((?:\d+(?:[.,]\d+)?\s*[a-z]+(?:[\s,]+(?:and\s+)?)?)+)", re.ASCII)
_SECONDS = {
    604_800: ("w", "week", "weeks"),
    86_400: ("d", "day", "days"),
    3_600: ("h", "hr", "hrs", "hour", "hours"),
    60: ("m", "min", "mins", "minute", "minutes"),
    1: ("s", "sec", "secs", "second", "seconds"),
}
_UNITS = {name: seconds for seconds, names in _SECONDS.items() for name in names}

MAX_LENGTH = 100


def to_words(text: str) -> str:
    """Return an ISO duration as people write it; invalid ones, and those with months or years, unchanged."""
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        return text
    sign, *numbers = match.groups()
    parts = [f"{number} {unit}" for number, unit in zip(numbers, ("w", "d", "h", "min", "s"), strict=True) if number]
    return f"{'-' if sign == '-' else ''}{' '.join(parts)}"


def to_iso(text: str) -> str | None:
    """Return what a person wrote as an ISO duration; ISO unchanged; None for anything else."""
    clean = text.strip()[:MAX_LENGTH]
    if re.fullmatch(r"[+-]?[Pp][\dA-Za-z.,]+", clean, re.ASCII):
        return clean.upper()
    match = _WORDS.fullmatch(clean.lower())
    if match is None:
        return None
    found = _PART.findall(match[2])
    if any(unit not in _UNITS for _, unit in found):
        return None
    total = sum((Decimal(number.replace(",", ".")) * _UNITS[unit] for number, unit in found), Decimal(0))
    return _iso(total, negative=match[1] == "-")


def _iso(seconds: Decimal, *, negative: bool) -> str:
    whole, rest = int(seconds // 60), seconds % 60
    days, minutes = divmod(whole, 1440)
    hours, minutes = divmod(minutes, 60)
    clock = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{rest.normalize():f}S" if rest else ""]
    date = f"{days}D" if days else ""
    time = "".join(clock) or ("" if days else "0S")
    return f"{'-' if negative else ''}P{date}{'T' if time else ''}{time}"
