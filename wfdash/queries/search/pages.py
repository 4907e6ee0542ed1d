"""Pages of long lists, and the small language people filter them with. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

T = TypeVar("T")

TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))')


@dataclass(frozen=True, kw_only=True)
class Page(Generic[T]):
    """Part of a list. ``next`` is the cursor of the following part, empty at the end."""

    items: tuple[T, ...]
    next: str = ""
    reached: datetime | None = None
    """Not everything was looked through: only what is newer than this. ``next`` looks further."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """What was typed into a filter box: ``status:waiting workflow:x free text``."""

    terms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Keys that this list does not know, to be named to the person."""


def parse_filter(text: str, keys: frozenset[str]) -> Filter:
    """Split a filter text; a key that is not in ``keys`` is reported and ignored. Never raises."""
    terms: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    unknown: list[str] = []
    for match in TERM.finditer(text[:500].replace("\0", "")):
        key, value = match["key"], match["quoted"] if match["quoted"] is not None else match["bare"]
        if key is None:
            words.append(value)
        elif key in keys:
            terms[key] = (*terms.get(key, ()), value)
        else:
            unknown.append(key)
    return Filter(terms=terms, words=tuple(words), unknown=tuple(unknown))


def encode_cursor(at: datetime, row_id: str) -> str:
    """Return the place after this row as text for an address."""
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), row_id]).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[datetime, str] | None:
    """Return the place a cursor names; None for an empty or damaged one: the list then starts at its top."""
    try:
        at, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        moment = datetime.fromisoformat(at)
        return (moment.astimezone(UTC), str(row_id)) if moment.tzinfo is not None else None
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        return None
