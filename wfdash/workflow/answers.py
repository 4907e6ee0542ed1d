"""The type of an answer, named in its schema, so that an invalid one is refused at once, not when a step reads it.

A JSON Schema cannot express a validator. So the schema of a question contains, under ``x-type``, the name by which the
asking step's code knows the type; the code that accepts the answer looks the name up there again, never imports
anything, and validates by the type itself. A type without a name is checked by its schema only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import logging
import operator
import types
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from checkpoints.records import Json, JsonObject, Request
from wfdash.values.codec import class_name, codec_for, find_class, type_problems
from wfdash.values.schemas.validate import Problem
from wfdash.workflow.authoring import Function
from wfdash.workflow.graph import Graph

log = logging.getLogger(__name__)
MARK = "x-type"
PLAIN = (str, int, float, bool, type(None), None, Any, object)
"""Types that their schema describes completely."""
GENERIC = {"list": list, "set": set, "frozenset": frozenset, "tuple": tuple, "dict": dict}
APART = frozenset({MARK, "$defs", "title"})


def marked(schema: JsonObject, kinds: Mapping[str, Any], function: Function) -> JsonObject:
    """Return the schema with the names of its types, where the step's function has names for them.

    ``kinds``: the type of the whole answer under an empty key, of one of its fields under the field's name.
    """
    names = names_of(function)
    for key, kind in kinds.items():
        name = None if any(kind is plain for plain in PLAIN) else name_type(kind, names)
        if name is not None and not key:
            schema = {**schema, MARK: name}
        elif name is not None:
            properties = schema["properties"]
            schema = {**schema, "properties": {**properties, key: {**properties[key], MARK: name}}}
    return schema


def names_of(function: Function) -> dict[str, Any]:
    """Return the names visible to a function's code: its module's names and those of the enclosing functions."""
    inner: Any = inspect.unwrap(function)
    known = dict(getattr(inner, "__globals__", {}))
    names = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(inner, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # An empty cell.
            known[name] = cell.cell_contents
    return known


def name_type(kind: Any, names: Mapping[str, Any]) -> Json:
    """Return the name of a type: text, or a list of a generic and its arguments; None if it has none."""
    if isinstance(kind, type) and get_origin(kind) is None:
        name = class_name(kind, names)
        if find_class(name, names) is kind:
            return name
    known = next((name for name, value in names.items() if value is kind), None)
    if known is not None:
        return known
    if kind is None or kind is Ellipsis:
        return "None" if kind is None else "..."
    origin = get_origin(kind)
    either = origin in (Union, types.UnionType)
    if not either and origin not in GENERIC.values():
        return None
    parts = [name_type(part, names) for part in get_args(kind)]
    return None if None in parts or not parts else ["|" if either else str(getattr(origin, "__name__", "")), *parts]


def find_type(name: Json, names: Mapping[str, Any]) -> Any:
    """Return the type of that name, ``Any`` if it no longer exists."""
    if isinstance(name, str):
        special = {"None": None, "...": Ellipsis}
        if name in special or name in names:
            return special[name] if name in special else _as_type(names[name])
        return find_class(name, names) or Any
    if not isinstance(name, list) or len(name) < 2:
        return Any
    parts = [find_type(part, names) for part in name[1:]]
    if any(part is Any for part in parts):
        return Any
    if name[0] == "|":
        return functools.reduce(operator.or_, parts)
    origin: Any = GENERIC.get(str(name[0]))
    return Any if origin is None else origin[tuple(parts)]


def _as_type(found: Any) -> Any:
    """Return what can be a type, ``Any`` for anything else, such as a function."""
    is_type = isinstance(found, type) or get_origin(found) is not None
    return found if is_type or hasattr(found, "__supertype__") or hasattr(found, "__value__") else Any


def check_answer(graph: Graph, request: Request, value: Json) -> list[Problem]:
    """Return what the types that the request names reject in an answer that is valid by its schema."""
    node = graph.nodes.get(request.step)
    if node is None:
        return []
    names = names_of(node.function)
    return [
        problem
        for loc, schema, part in _marked_parts(request.answer_schema, value)
        for problem in _problems(find_type(schema[MARK], names), schema, part, loc)
    ]


def _marked_parts(schema: Mapping[str, Json], value: Json) -> Iterator[tuple[list[Any], Mapping[str, Json], Json]]:
    """Yield each part of a value that has a type of its own: the whole, or a field of it."""
    if MARK in schema:
        yield [], schema, value
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(value, dict):
        return
    for key, node in properties.items():
        if isinstance(node, dict) and MARK in node and key in value:
            yield [key], node, value[key]


def _is_of(schema: Mapping[str, Json], kind: Any) -> bool:
    """Return whether a type still has the schema that was asked with; if not, it is another one of that name."""
    try:
        written = codec_for(kind).schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        return False
    same = [{key: node for key, node in one.items() if key not in APART} for one in (schema, written)]
    return same[0] == same[1]


def _problems(kind: Any, schema: Mapping[str, Json], value: Json, loc: list[Any]) -> list[Problem]:
    if not _is_of(schema, kind):
        reason = "no longer exists" if kind is Any else "has changed since it was asked"
        log.warning("The type %s of an answer %s: it is judged by its form alone", schema[MARK], reason)
        return []
    try:
        codec_for(kind).adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        return [{**found, "loc": [*loc, *found["loc"]]} for found in type_problems(error, value)]
    except Exception as error:  # The author's own check failed: the step that reads the answer would fail as well.
        words = f"The answer check failed with an error; tell the workflow's author: {type(error).__name__}: {error}"
        return [{"loc": loc, "msg": words}]
    return []


# -- the types that a step's code can name, besides those of its signature


class Quiet(GenerateJsonSchema):
    """A schema generator without warnings about defaults that have no JSON: these types need not be stored."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}


def named_schemas(function: Function) -> Iterator[JsonObject]:
    """Yield the schema of every model and dataclass that a function's code can name, by its module's names too."""
    names = names_of(function)
    attributes = getattr(getattr(function, "__code__", None), "co_names", ())
    modules = [value for value in names.values() if isinstance(value, ModuleType)]
    through = [getattr(module, name, None) for module in modules for name in attributes]
    for kind in {id(one): one for one in (*names.values(), *through)}.values():
        if isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)):
            try:
                yield _schema_of(kind)
            except (PydanticSchemaGenerationError, PydanticUserError, TypeError, ValueError):
                continue


@lru_cache(maxsize=512)
def _schema_of(kind: type) -> JsonObject:
    """Return a type's schema: made once, however many steps of a module can name the type."""
    return codec_for(kind).adapter.json_schema(schema_generator=Quiet)
