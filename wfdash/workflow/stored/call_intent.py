"""The intent of a ``once`` call, recorded before it is made: people who decide whether it happened must see it.

Pure. Secrets are masked before anything is stored, and values without a JSON form only keep their type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from checkpoints.records import Json
from wfdash.schemas.secrets import masked, secret_names
from wfdash.values.codec import codec_for
from wfdash.values.display import OPAQUE, to_display
from wfdash.values.truncate import truncate
from wfdash.workflow.answers.nameable_types import named_schemas
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.stored.position import CallIntent

MOST = 2_000
"""Parts of a call's arguments that are recorded."""


def intent(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], at: datetime) -> CallIntent:
    """Return the record of a call: ``args``, name -> value cut to what a card shows, and ``at``, as ISO text."""
    given = _bound_arguments(function, args, kwargs)
    names = _secrets_of(function).union(*(_secrets_in(type(value)) for value in given.values()))
    shown = masked(_without_reprs(to_display(given, most=MOST)), names)
    return {"args": truncate(shown), "at": at.isoformat()}


def secrets_of(graph: Graph) -> frozenset[str]:
    """Return the names of the fields that a type of a message, of the state or of a question calls secrets."""
    codecs = [codec for node in graph.nodes.values() for codec in (*(node.accepts or ()), *(node.produces or ()))]
    schemas = [codec.schema() for codec in (*codecs, *graph.state.codecs.values())]
    # The type a step asks for is not in its signature.
    named = [schema for node in graph.nodes.values() for schema in named_schemas(node.function)]
    return frozenset[str]().union(*map(secret_names, (*schemas, *named)))


def _bound_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
        more = {one.name for one in bound.signature.parameters.values() if one.kind is one.VAR_KEYWORD}
        named = {name: value for name, value in bound.arguments.items() if name not in more}
        return named | {name: value for part in more for name, value in bound.arguments.get(part, {}).items()}
    except (TypeError, ValueError):
        return {**{str(number): value for number, value in enumerate(args, 1)}, **kwargs}


@lru_cache(maxsize=512)
def _of_type(kind: Any) -> frozenset[str]:
    try:
        return secret_names({"properties": {"": TypeAdapter(kind).json_schema()}})
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        return frozenset()


def _secrets_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the secrets by name among a function's parameters, and in their types."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return frozenset()
    found = [names | ({name} if "" in names else set()) for name, names in _by_parameter(hints)]
    return frozenset[str]().union(*found) - {""}


def _by_parameter(hints: Mapping[str, Any]) -> list[tuple[str, frozenset[str]]]:
    known = []
    for name, kind in hints.items():
        try:
            known.append((name, _of_type(kind)))
        except TypeError:  # A type that is not hashable.
            continue
    return known


def _secrets_in(kind: type) -> frozenset[str]:
    return secret_names(codec_for(kind).schema()) if issubclass(kind, BaseModel) else frozenset()


def _without_reprs(value: Json) -> Json:
    """Return the value with opaque parts named by their type: an object's repr may contain a secret."""
    if isinstance(value, list):
        return [_without_reprs(part) for part in value]
    if not isinstance(value, dict):
        return value
    if OPAQUE in value:
        return f"({value[OPAQUE]})"
    return {name: _without_reprs(part) for name, part in value.items()}
