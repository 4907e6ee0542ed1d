"""Problems of JSON that is to become a value of a declared type: by its JSON Schema, then by the type. Pure.

All such JSON is checked here: forms, programs and operators get the same message for the same value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from checkpoints.records import Json
from wfdash.schemas.validate import Problem, problems_of
from wfdash.values.codec import Codec, same
from wfdash.values.errors import WorkflowError

ASSERTED = ("Value error, ", "Assertion failed, ")


def schema_problems(codec: Codec, value: Json) -> list[Problem]:
    """Return what the type's JSON Schema rejects in a value, empty if it is valid.

    Stored values have the names of a model's fields, not the aliases that a form sends, and are checked by those.
    """
    if codec.plain:
        return []
    try:
        found = problems_of(codec.schema(), value)
        if found and _is_stored(codec, value):
            return problems_of(codec.adapter.json_schema(by_alias=False), value)
    except PydanticInvalidForJsonSchema:  # A type without a schema has no form either: only the type decides.
        return []
    return found


def _is_stored(codec: Codec, value: Json) -> bool:
    """Return whether a value is in its stored form: then it may have been stored before."""
    try:
        return same(codec.encode(codec.decode(value)), value)
    except WorkflowError:
        return False


def type_problems(error: ValidationError, value: Json) -> list[Problem]:
    """Return what the type itself rejects in a value, each problem at its field."""
    return [
        {"loc": list(_existing_path(found["loc"], value)), "msg": _sentence_of(found["msg"])}
        for found in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _existing_path(loc: tuple[int | str, ...], value: Any) -> Iterator[int | str]:
    """Yield the parts of a place that the value has; pydantic names branches of unions in between."""
    for number, part in enumerate(loc):
        listed = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if listed or (isinstance(value, dict) and part in value):
            value = value[part]
        elif not isinstance(value, dict) or number < len(loc) - 1 or not str(part).isidentifier():
            continue
        yield part


def _sentence_of(message: str) -> str:
    for start in ASSERTED:
        message = message.removeprefix(start)
    return message[:1].upper() + message[1:]
