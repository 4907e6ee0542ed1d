"""An answer's own type, named in its schema, so that it is refused where it is given and not when a step reads it.

A JSON Schema cannot say what a validator says. So the schema of a question carries, under ``x-type``, the name by
which the asking step's code knows the type; whoever accepts the answer looks the name up in that code again, never
imports anything, and lets the type itself judge. A type without a name is judged by its schema alone.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import operator
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from checkpoints.records import Json, Request
from wfdash.schema import Problem
from wfdash.workflow.codec import codec_for
from wfdash.workflow.graph import Graph
from wfdash.workflow.steps import Function

MARK = "x-type"
PLAIN = (str, int, float, bool, type(None), None, Any, object)
"""Types whose schema says all there is to say."""
GENERIC = {"list": list, "set": set, "frozenset": frozenset, "tuple": tuple, "dict": dict}
APART = frozenset({MARK, "$defs", "title"})
ASSERTED = ("Value error, ", "Assertion failed, ")


def marked(schema: dict[str, Json], kinds: Mapping[str, Any], function: Function) -> dict[str, Json]:
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
    """Return what a function's code can name: its module's names and those of the functions around it."""
    inner: Any = inspect.unwrap(function)
    known = dict(getattr(inner, "__globals__", {}))
    names = getattr(getattr(inner, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(inner, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # A cell that nothing was put in yet.
            known[name] = cell.cell_contents
    return known


def name_type(kind: Any, names: Mapping[str, Any]) -> Json:
    """Return the name of a type: text, or a list of a generic and its arguments; None if it has none."""
    if isinstance(kind, type) and get_origin(kind) is None:
        name = f"{kind.__module__}:{kind.__qualname__}"
        if _loaded(name) is kind:
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
    """Return the type of that name, ``Any`` if there is none any more."""
    if isinstance(name, str):
        special = {"None": None, "...": Ellipsis}
        return special[name] if name in special else _as_type(names[name]) if name in names else _loaded(name)
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
    """Return what can be a type, ``Any`` for what has come to be something else, a function above all."""
    is_type = isinstance(found, type) or get_origin(found) is not None
    return found if is_type or hasattr(found, "__supertype__") or hasattr(found, "__value__") else Any


def check_answer(graph: Graph, request: Request, value: Json) -> list[Problem]:
    """Return what the types that the request names have against an answer that fits its schema."""
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
    """Say whether a type still writes the schema that was asked with; if not, it is another one of that name."""
    try:
        written = codec_for(kind).schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        return False
    same = [{key: node for key, node in one.items() if key not in APART} for one in (schema, written)]
    return same[0] == same[1]


def _problems(kind: Any, schema: Mapping[str, Json], value: Json, loc: list[Any]) -> list[Problem]:
    if not _is_of(schema, kind):
        return []
    try:
        codec_for(kind).adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        return [
            {"loc": [*loc, *_place(found["loc"], value)], "msg": _words(found["msg"])}
            for found in error.errors(include_url=False, include_context=False, include_input=False)
        ]
    except Exception as error:  # The author's own check broke: the step that reads the answer would break as well.
        words = f"The check of this answer broke, tell its author: {type(error).__name__}: {error}"
        return [{"loc": loc, "msg": words}]
    return []


def _place(loc: tuple[int | str, ...], value: Any) -> Iterator[int | str]:
    """Yield the parts of a place that the value has; pydantic names branches of unions on the way."""
    for number, part in enumerate(loc):
        listed = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if listed or (isinstance(value, dict) and part in value):
            value = value[part]
        elif not isinstance(value, dict) or number < len(loc) - 1 or not str(part).isidentifier():
            continue
        yield part


def _words(message: str) -> str:
    for start in ASSERTED:
        message = message.removeprefix(start)
    return message[:1].upper() + message[1:]


def _loaded(name: str) -> Any:
    """Return a class by ``module:qualified.name`` out of what is loaded already, ``Any`` if it is not."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else Any
