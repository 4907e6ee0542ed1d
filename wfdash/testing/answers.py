"""Values as tests write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from checkpoints.records import Json
from wfdash.outcomes import answer_to


def as_json(value: Any) -> Json:
    """Return a model, dataclass or value as JSON."""
    return to_jsonable_python(value)


def written_out(schema: Mapping[str, Any], value: Any, fields: Mapping[str, Any]) -> Json:
    """Return an answer as it is sent; without a value its fields are all of it."""
    return as_json(answer_to(schema, {} if value is None and fields else value, fields))
