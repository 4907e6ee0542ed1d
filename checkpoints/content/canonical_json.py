"""JSON text that survives a round trip: compact, UTF-8, key order kept, only values that JSON supports.

Key order is part of a value here: a form shows its fields in the order of their schema.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

Json = Any

NAN, INFINITY = b"NaN", b"Infinity"


def dumps(value: Json) -> bytes:
    """Return the value as JSON. ``ValueError`` for NaN, infinity, lone surrogates, foreign types, or > 200 levels."""
    try:
        text = to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise ValueError(f"not a JSON value: {error}") from error
    # First their first letters: few texts have those, and finding one byte takes a fraction of finding a word.
    if (NAN[0] in text and NAN in text) or (INFINITY[0] in text and INFINITY in text):
        refuse_non_finite(value)
    return text


def refuse_non_finite(value: Json) -> None:
    """Raise ``ValueError`` if a NaN or infinity is among the numbers (the words may occur in texts)."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError("not a JSON value: numbers must be finite, found NaN or infinity") from error


def loads(text: bytes | str) -> Json:
    """Return the value of a JSON text. ``ValueError`` if it is not valid."""
    return from_json(text, allow_inf_nan=False, cache_strings="keys")
