"""What all records of the API have in common, what it answers with and takes, and its errors as RFC 9457 has them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from checkpoints.records import Record

T = TypeVar("T")
UNREADABLE = "unreadable"
"""The fact that says why what is stored cannot be read."""


class ApiRecord(Record):
    """Something the API answers with. A reader ignores fields it does not know: a later version may add some."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        extra="ignore",
        # An answer has all of its fields, those that keep their default as well.
        json_schema_serialization_defaults_required=True,
    )

    @classmethod
    def of(cls, known: Any) -> Self:
        """Return the record of an object that has its fields, unchecked."""
        return cls.trusted(**{name: getattr(known, name) for name in cls.model_fields})


class Described:
    """A model whose fields have docstrings, which the API's document shows. They are read when that is made: the source
    of a class takes milliseconds, which pydantic's own way would add to each start.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, stored: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the class's schema with its fields' docstrings."""
        found = handler(stored)
        fields = handler.resolve_ref_schema(found)["properties"]
        with suppress(OSError):  # Where only compiled files are installed.
            for kind in cls.__mro__[: cls.__mro__.index(Described)]:
                tree: Any = ast.parse(inspect.getsource(kind))
                for field, text in pairwise(tree.body[0].body):
                    if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                        said = inspect.cleandoc(ast.literal_eval(text.value))
                        fields[ast.unparse(field.target)].setdefault("description", said)
        return found


class DescribedRecord(Described, ApiRecord):
    """A record of the API that is described."""


class Page(ApiRecord, Generic[T]):
    """Part of a list. ``next`` is the cursor of the following part, empty at the end."""

    items: tuple[T, ...]
    next: str = ""


class ScannedPage(Page[T]):
    """Part of a list that may have no index.

    ``reached``: no index covers the filter, and only what is newer than this was scanned yet. ``next`` looks further.
    """

    reached: datetime | None = None


class Body(BaseModel):
    """A JSON body. An unknown field is refused: a typo must not become a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: Any) -> Any:
        unknown = [name for name in given if name not in cls.model_fields] if isinstance(given, Mapping) else []
        if unknown:
            kind = PydanticCustomError("unknown_field", f"Unknown field. Available: {', '.join(cls.model_fields)}")
            found = [InitErrorDetails(type=kind, loc=(str(name),), input=None) for name in unknown]
            raise ValidationError.from_exception_data(cls.__name__, found)
        return given


class Created(ApiRecord):
    """The id of what was created or changed. ``n``: its number within its kind, 0 without one."""

    id: str
    n: int = 0


MEDIA_TYPE = "application/problem+json"


class FieldProblem(ApiRecord):
    """What is wrong with one value. ``loc``: the way to it, empty for the whole."""

    loc: list[str | int]
    msg: str


class Problem(ApiRecord):
    """Why a call was refused. ``code`` is stable, ``detail`` is for people.

    Facts of the problem are further fields: who answered first, after how many seconds to try again.
    """

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] = []
