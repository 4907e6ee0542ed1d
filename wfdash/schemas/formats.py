"""The formats a JSON Schema may name: which texts match them, and their descriptions. Pure.

One list for the schema check, the forms and the error messages. A text matches a format when pydantic's type accepts it
and it is written the one way the format's standard says; a format that is not listed allows any text.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from jsonschema import FormatChecker
from pydantic import AnyUrl, TypeAdapter

MOMENT = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?"
CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?"
SPAN = r"[+-]?P(?!$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?"
HEX = r"[0-9a-fA-F]"
IDENTITY = rf"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}"
ADDRESS = r"[^@\s<>]+@[^@\s<>.]+(\.[^@\s<>.]+)+"


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format. ``words`` end the sentence "Must be ..."; ``fits`` returns or raises ``ValueError`` to say no."""

    words: str
    fits: Callable[[str], Any]

    def takes(self, text: str) -> bool:
        """Return whether a text matches this format."""
        try:
            return self.fits(text) is not False
        except (ValueError, OverflowError, RecursionError):
            return False


def words_of(name: str) -> str:
    """Return what a format requires, with an example: ends "Must be ..."."""
    known = FORMATS.get(name)
    return known.words if known else f"a valid {name.replace('-', ' ')}"


def _format_check(pattern: str, kind: Any = str) -> Callable[[str], bool]:
    """Return a check: matches this pattern, and is accepted by this type."""
    shape, adapter = re.compile(pattern, re.ASCII), TypeAdapter(kind)

    def fits(text: str) -> bool:
        return bool(shape.fullmatch(text)) and adapter.validate_python(text) is not None

    return fits


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _base64url(text: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]*={0,2}", text, re.ASCII):
        raise binascii.Error("not base64url")
    return base64.urlsafe_b64decode(text)


def _pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


_UUID = Format(words="a UUID such as 123e4567-e89b-42d3-a456-426614174000", fits=_format_check(IDENTITY, UUID))
_EMAIL = Format(words="an e-mail address such as ana@example.com", fits=_format_check(ADDRESS))
_URL = Format(words="a web address such as https://example.com/", fits=TypeAdapter(AnyUrl).validate_python)

FORMATS: dict[str, Format] = {
    "date": Format(words="a date such as 2026-11-21", fits=_format_check(r"\d{4}-\d\d-\d\d", date)),
    "date-time": Format(words="a date and time such as 2026-11-21T14:30:00Z", fits=_format_check(MOMENT, datetime)),
    "time": Format(words="a time such as 14:30", fits=_format_check(CLOCK, time)),
    "duration": Format(words="a duration such as 1 h 30 min (PT1H30M)", fits=_format_check(SPAN, timedelta)),
    "uuid": _UUID,
    **{f"uuid{version}": _UUID for version in range(1, 9)},
    "email": _EMAIL,
    "idn-email": _EMAIL,
    "uri": _URL,
    "url": _URL,
    "ipv4": Format(words="an IPv4 address such as 192.0.2.1", fits=ipaddress.IPv4Address),
    "ipv6": Format(words="an IPv6 address such as 2001:db8::1", fits=ipaddress.IPv6Address),
    "ipvanyaddress": Format(words="an IP address such as 192.0.2.1", fits=ipaddress.ip_address),
    "ipv4network": Format(words="an IPv4 network such as 192.0.2.0/24", fits=ipaddress.IPv4Network),
    "ipv6network": Format(words="an IPv6 network such as 2001:db8::/32", fits=ipaddress.IPv6Network),
    "regex": Format(words="a regular expression", fits=_pattern),
    "base64": Format(words="base64 text", fits=_base64),
    "base64url": Format(words="base64 text (URL-safe)", fits=_base64url),
    "json-string": Format(words="JSON text", fits=json.loads),
}


def make_checker() -> FormatChecker:
    """Return a checker of exactly these formats, for ``jsonschema``."""
    checker = FormatChecker(formats=())
    for name, known in FORMATS.items():
        checker.checks(name)(_for_text(known))
    return checker


def _for_text(known: Format) -> Callable[[object], bool]:
    """Return a check for texts only: other values match every format."""
    return lambda value: not isinstance(value, str) or known.takes(value)
