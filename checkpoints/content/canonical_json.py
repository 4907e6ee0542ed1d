"""JSON text that survives a round trip: compact, UTF-8, key order kept, only values that JSON supports.

Key order is part of a value here: a form shows its fields in the order of their schema.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

Json = Any

NAN, INFINITY = b"NaN", b"Infinity"
QUOTE = b'"'[0]
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

LEVELS = 100
"""Lists and objects within each other that a value of a workflow may have."""
DOCUMENT_LEVELS = 150
"""Those of a whole document, which holds such values."""
READ_LEVELS = 200
"""Those that the parser reads."""
DIGITS = 4_300
"""Digits of a whole number that Python and the parser read."""
TOO_LARGE = 10**DIGITS
"""The first whole number with more digits."""


def dumps(value: Json) -> bytes:
    """Return the value as JSON that ``loads`` reads.

    ``ValueError`` for NaN, infinity, lone surrogates, foreign types, more than ``DOCUMENT_LEVELS`` or ``DIGITS``.
    """
    try:
        text = to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise ValueError(f"not a JSON value: {error}") from error
    # Few are long enough to break a limit, and a string breaks none.
    if len(text) > DOCUMENT_LEVELS and text[0] != QUOTE:
        opened = text.count(b"[") + text.count(b"{")
        if (opened > DOCUMENT_LEVELS and may_be_deep(text)) or (len(text) > DIGITS and may_be_long(text)):
            refuse_unreadable(text)
    # First their first letters: few texts have those, and finding one byte takes a fraction of finding a word.
    if (NAN[0] in text and NAN in text) or (INFINITY[0] in text and INFINITY in text):
        refuse_non_finite(value)
    return text


def may_be_deep(text: bytes) -> bool:
    """Return whether JSON may have more than ``DOCUMENT_LEVELS``; texts with brackets in them may look as if.

    Each round takes the innermost lists and objects away, which costs a tenth of reading.
    """
    brackets = text.translate(None, NO_BRACKETS)
    for taken in range(0, DOCUMENT_LEVELS, 2):
        if len(brackets) <= DOCUMENT_LEVELS - taken:
            return False
        left = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(left) == len(brackets):
            return True
        brackets = left
    return True


def may_be_long(text: bytes) -> bool:
    """Return whether JSON may have more than ``DIGITS`` in a row: two halves of so many lie within such a number."""
    half = DIGITS // 2
    return any(text[at : at + half].isdigit() for at in range(0, len(text) - half, half))


def refuse_unreadable(text: bytes) -> None:
    """Raise ``ValueError`` for JSON that is nested too deeply, or has a number of too many digits."""
    spare = READ_LEVELS - DOCUMENT_LEVELS
    try:
        from_json(b"[" * spare + text + b"]" * spare)
    except ValueError as error:
        limits = f"at most {DOCUMENT_LEVELS} levels and whole numbers of {DIGITS} digits can be read"
        raise ValueError(f"not a JSON value: {limits}") from error


def refuse_non_finite(value: Json) -> None:
    """Raise ``ValueError`` if a NaN or infinity is among the numbers (the words may occur in texts)."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError("not a JSON value: numbers must be finite, found NaN or infinity") from error


def loads(text: bytes | str) -> Json:
    """Return the value of a JSON text. ``ValueError`` if it is not valid."""
    return from_json(text, allow_inf_nan=False, cache_strings="keys")
