"""One value and its text: ``show`` writes what a control displays, ``read`` takes what a person typed. Pure.

``read(spec, show(spec, value))`` is the value for all but a few (an aware time with an odd offset, a decimal with
trailing zeros, text with carriage returns); those travel beside their control and come back untouched.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from wfdash.pages.ui.forms import durations, json_text
from wfdash.pages.ui.forms.json_text import Unreadable
from wfdash.pages.ui.forms.spec import Spec

LOCAL_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?")
LOCAL_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,3})?)?")
LOCAL_DATE = re.compile(r"\d{4}-\d\d-\d\d")
MAX_DIGITS = 400


class MissingValue:
    """There is no value: the field was left empty and is not part of the answer."""


MISSING = MissingValue()


def show(spec: Spec, value: Any) -> str:
    """Return the text of a control for a value; a value of another type is shown unchanged."""
    if value is MISSING or value is None:
        return ""
    if spec.kind == "json":
        return json_text.write(value)
    if spec.kind == "duration" and isinstance(value, str):
        return durations.to_words(value)
    if spec.kind == "datetime" and isinstance(value, str):
        return _show_moment(value)
    if spec.kind == "time" and isinstance(value, str):
        return _show_time(value)
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def read(spec: Spec, text: str) -> Any:
    """Return the value of a non-empty text. Raises ``Unreadable``."""
    return _READERS.get(spec.kind, _read_text)(text)


def tokens(options: tuple[Any, ...]) -> tuple[str, ...]:
    """Return what the browser sends for each option: its text, or JSON where texts would be ambiguous."""
    plain = tuple(option if isinstance(option, str) else json.dumps(option, sort_keys=True) for option in options)
    if "" in plain or len(set(plain)) < len(plain) or any("\n" in token or "\r" in token for token in plain):
        return tuple(json.dumps(option, sort_keys=True) for option in options)
    return plain


def ticked(options: tuple[Any, ...], value: Any) -> Any:
    """Return the options that occur in a list, in the order of the options; anything but a list is returned
    unchanged.
    """
    return (
        [option for option in options if any(same(option, item) for item in value)]
        if isinstance(value, list)
        else value
    )


def same(left: Any, right: Any) -> bool:
    """Say whether two JSON values are the same: unlike ``==``, true is not 1. ``MISSING`` is only itself."""
    if left is MISSING or right is MISSING:
        return left is right
    return type(left) is type(right) and json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _read_text(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_integer(text: str) -> int:
    clean = text.strip()
    if not re.fullmatch(r"[+-]?\d+", clean, re.ASCII) or len(clean) > MAX_DIGITS:
        raise Unreadable(f"Must be a whole number, such as 12{_hint(clean)}")
    return int(clean)


def _hint(text: str) -> str:
    """Return how to correct a number as people write it."""
    if not re.fullmatch(r"[+-]?[\d.]*[,' ][\d.,' ]*", text, re.ASCII):
        return ""
    return ": use a point for the fraction and no thousands separator"


def _read_number(text: str) -> int | float:
    clean = text.strip()
    if re.fullmatch(r"[+-]?\d+", clean, re.ASCII) and len(clean) <= MAX_DIGITS:
        return int(clean)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", clean, re.ASCII):
        raise Unreadable(f"Must be a number, such as 12.5{_hint(clean)}")
    number = float(clean)
    if not math.isfinite(number):
        raise Unreadable("This number is too large")
    return number


def _read_decimal(text: str) -> int | float | str:
    """Return a JSON number where it is exactly the same, trailing zeros included, else the digits as text."""
    number = _read_number(text)
    try:
        exact = Decimal(text.strip())
    except InvalidOperation as error:
        raise Unreadable("Must be a number, such as 12.50") from error
    same = Decimal(repr(number))
    equal = same == exact if "e" in text.lower() else same.as_tuple() == exact.as_tuple()
    return number if equal else text.strip()


def _read_span(text: str) -> str:
    """Return an ISO duration, from text or unchanged."""
    span = durations.to_iso(text)
    if span is None:
        raise Unreadable("Must be a duration, such as 1 h 30 min or 2 days")
    return span


def _read_moment(text: str) -> str:
    """Return an RFC 3339 time: the value of a browser's control is taken as UTC."""
    clean = text.strip()
    if not LOCAL_MOMENT.fullmatch(clean):
        return clean
    return f"{clean}:00Z" if len(clean) == len("2026-11-21T05:09") else f"{clean}Z"


def _show_moment(text: str) -> str:
    """Return a time in UTC without its offset, as a browser's control wants it; others unchanged."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return text
    spoken = moment.isoformat(timespec="auto" if moment.microsecond % 1000 else "milliseconds")
    whole = spoken.removesuffix(".000")
    return whole.removesuffix(":00") if len(whole) == len("2026-11-21T05:09:10") else whole


def _show_time(text: str) -> str:
    """Return a time as a browser's control writes it: no seconds when there are none."""
    return text[:5] if re.fullmatch(r"\d\d:\d\d:00", text) else text


def _read_time(text: str) -> str:
    clean = text.strip()
    return f"{clean}:00" if re.fullmatch(r"\d\d:\d\d", clean) else clean


_READERS: dict[str, Callable[[str], Any]] = {
    "integer": _read_integer,
    "number": _read_number,
    "decimal": _read_decimal,
    "duration": _read_span,
    "json": json_text.read,
    "datetime": _read_moment,
    "date": str.strip,
    "time": _read_time,
}
