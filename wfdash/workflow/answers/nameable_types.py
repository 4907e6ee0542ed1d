"""The types that a step's code can name, besides those of its signature. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from checkpoints.records import Json
from wfdash.values.codec import codec_for
from wfdash.workflow.answers.answer_types import names_of
from wfdash.workflow.authoring.steps import Function


class Quiet(GenerateJsonSchema):
    """A schema generator without warnings about defaults that have no JSON: these types need not be stored."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}


def named_schemas(function: Function) -> Iterator[dict[str, Json]]:
    """Yield the schema of every model and dataclass that a function's code can name, by its module's names too."""
    names = names_of(function)
    attributes = getattr(getattr(function, "__code__", None), "co_names", ())
    modules = [value for value in names.values() if isinstance(value, ModuleType)]
    through = [getattr(module, name, None) for module in modules for name in attributes]
    for kind in {id(one): one for one in (*names.values(), *through)}.values():
        if _is_model(kind):
            try:
                yield _schema_of(kind)
            except (PydanticSchemaGenerationError, PydanticUserError, TypeError, ValueError):
                continue


@lru_cache(maxsize=512)
def _schema_of(kind: type) -> dict[str, Json]:
    """Return a type's schema: made once, however many steps of a module can name the type."""
    return codec_for(kind).adapter.json_schema(schema_generator=Quiet)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))
