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
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import AnyUrl, TypeAdapter

from checkpoints.records import frozen

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError

# ``jsonschema`` is imported with the first check: that takes a tenth of the time in which a process starts that uses
# workflows as a library, and many never check anything by a schema.


def flaw(words: str, **facts: Any) -> ValidationError:
    """Return an error of ``jsonschema``."""
    from jsonschema.exceptions import ValidationError

    return ValidationError(words, **facts)


# The type of a file by its first bytes, and whether a schema allows it. Pure.

MAX_FILE = 1_000_000
"""Bytes of a file where its schema sets no limit."""
LARGEST = 5_000_000
"""Bytes of a file, whatever its schema says."""

ENCODED = frozenset({"base64", "base64url"})
BINARY = "application/octet-stream"
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF8", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"%PDF-", 0, "application/pdf"),
    (b"PK\x03\x04", 0, "application/zip"),
    (b"\x1f\x8b", 0, "application/gzip"),
)
_ZIPPED = ("application/vnd.openxmlformats", "application/vnd.oasis", "application/epub", "application/java-archive")
_NAMED = frozenset(media for _, _, media in _SIGNATURES)
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml", "application/toml", "image/svg+xml"})


def sniff(content: bytes) -> str:
    """Return the media type of a file by its content: one with a signature, plain text, or unknown bytes."""
    for mark, at, media in _SIGNATURES:
        if content[at : at + len(mark)] == mark:
            return media
    try:
        return BINARY if "\x00" in content.decode() else "text/plain"
    except UnicodeDecodeError:
        return BINARY


def encoding_of(schema: Mapping[str, Any]) -> str:
    """Return ``base64`` or ``base64url`` where a schema's text represents bytes, else an empty string.

    Pydantic writes the media type of an optional file beside its alternatives, the format inside of one.
    """
    inner = schema.get("anyOf")
    for part in (schema, *(inner if isinstance(inner, list) else ())):
        named = (part.get("contentEncoding") or part.get("format")) if isinstance(part, Mapping) else None
        if isinstance(named, str) and named in ENCODED:
            return named
    return ""


def wanted_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the media types a schema asks for; none: any file."""
    named = schema.get("contentMediaType")
    return tuple(part.strip().lower() for part in named.split(",") if part.strip()) if isinstance(named, str) else ()


def limit_of(schema: Mapping[str, Any]) -> int:
    """Return how many bytes a file may have."""
    given = schema.get("x-max-bytes")
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        return MAX_FILE
    return min(given, LARGEST)


def decode(schema: Mapping[str, Any], text: str) -> bytes:
    """Return the bytes a text represents; ``ValueError`` if it is not base64 where it has to be."""
    encoding = encoding_of(schema)
    if encoding == "base64":
        return base64.b64decode(text, validate=True)
    return base64.urlsafe_b64decode(text) if encoding else text.encode()


def encode(schema: Mapping[str, Any], content: bytes) -> str:
    """Return bytes as the text a schema wants; ``ValueError`` for bytes that are not text where text is wanted."""
    encoding = encoding_of(schema)
    if encoding == "base64":
        return base64.b64encode(content).decode()
    return base64.urlsafe_b64encode(content).decode() if encoding else content.decode("utf-8-sig")


def check_type(_: Any, wanted: Any, text: Any, schema: Any) -> Iterator[ValidationError]:
    """``contentMediaType`` for ``jsonschema``: the content has to be of that type."""
    content = _decoded_or_none(schema, text)
    if content is None or not isinstance(wanted, str):
        return
    found = sniff(content)
    if not any(_matches_type(media, found, content) for media in wanted_types(schema)):
        found = {"text/plain": "text", BINARY: "of an unknown type"}.get(found, found)
        yield flaw(f"Must be {wanted}, this is {found}: choose another file")


def check_encoding(_: Any, encoding: Any, text: Any, schema: Any) -> Iterator[ValidationError]:
    """``contentEncoding`` for ``jsonschema``: base64 has to be base64."""
    if (
        isinstance(encoding, str)
        and encoding in ENCODED
        and isinstance(text, str)
        and _decoded_or_none(schema, text) is None
    ):
        yield flaw("Must be base64 text, the content of a file")


def check_size(_: Any, limit: Any, text: Any, schema: Any) -> Iterator[ValidationError]:
    """``x-max-bytes`` for ``jsonschema``."""
    content = _decoded_or_none(schema, text)
    if content is not None and isinstance(limit, int) and len(content) > limit_of(schema):
        yield flaw(too_large(schema))


def too_large(schema: Mapping[str, Any]) -> str:
    """Return the message about a file that is too large."""
    limit = limit_of(schema)
    size = f"{limit // 1_000_000} MB" if limit % 1_000_000 == 0 else f"{limit:,} bytes"
    return f"The file is too large: at most {size}"


CHECKS = {"contentMediaType": check_type, "contentEncoding": check_encoding, "x-max-bytes": check_size}


def _decoded_or_none(schema: Any, text: Any) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return decode(schema, text)
    except ValueError:
        return None


def _matches_type(wanted: str, found: str, content: bytes) -> bool:
    if wanted in {found, "*/*", BINARY}:
        return True
    if wanted.endswith("/*"):
        return found.startswith(wanted[:-1])
    if wanted == "application/json":
        try:
            json.loads(content)
        except (ValueError, RecursionError):
            return False
        return True
    if wanted.startswith("text/") or wanted in _TEXTUAL:
        return found == "text/plain"
    if wanted.startswith(_ZIPPED):
        return found == "application/zip"
    return wanted not in _NAMED


# The formats: which texts match each of them. Pure.

MOMENT = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?"
CLOCK = r"\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?"
SPAN = r"[+-]?P(?!$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?"
HEX = r"[0-9a-fA-F]"
IDENTITY = rf"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}"
ADDRESS = r"[^@\s<>]+@[^@\s<>.]+(\.[^@\s<>.]+)+"


@frozen
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


@cache
def make_checker() -> FormatChecker:
    """Return a checker of exactly these formats, for ``jsonschema``."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name, known in FORMATS.items():
        checker.checks(name)(_for_text(known))
    return checker


def _for_text(known: Format) -> Callable[[object], bool]:
    """Return a check for texts only: other values match every format."""
    return lambda value: not isinstance(value, str) or known.takes(value)
