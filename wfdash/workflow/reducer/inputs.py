"""A run's input: which steps accept it, as which type, and its form.

A run begins with the steps with ``start=True``, one that follows a completed run with those with ``follow_up=True``.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from checkpoints.records import Json
from wfdash.contract import InvalidInput
from wfdash.domain.labels import humanize
from wfdash.values.codec import codec_for, either, is_any, schema_problems, type_problems
from wfdash.values.schemas.work import UnsupportedPattern, refuse_unsupported
from wfdash.workflow.compiler.graph import Graph, Node
from wfdash.workflow.errors import InvalidWorkflow, NotStorable
from wfdash.workflow.reducer.routing import first_steps, pack, pack_for_first
from wfdash.workflow.reducer.ticks import Route


def begins(graph: Graph, *, follow_up: bool) -> tuple[str, ...]:
    """Return the names of the nodes with which a run begins."""
    return graph.follow_ups if follow_up else graph.starts


def start_nodes(graph: Graph, *, follow_up: bool = False) -> list[Node]:
    """Return the nodes that receive the input; a sub-workflow's start steps instead of its hidden entry."""
    return [found for name in begins(graph, follow_up=follow_up) for found in first_steps(graph, graph.nodes[name])]


def input_type(graph: Graph, *, follow_up: bool = False) -> Any:
    """Return the type of the run's message: that of the first steps, ``A | B`` of several, None without one."""
    kinds = [node.takes for node in start_nodes(graph, follow_up=follow_up) if node.takes_message]
    if not kinds:
        return None
    return Any if any(is_any(kind) for kind in kinds) else either(kinds)


def follow_up_schema(graph: Graph) -> dict[str, Json] | None:
    """Return the JSON Schema of the message that follows up on a completed run; None where no step takes one."""
    return input_schema(graph, follow_up=True) if graph.follow_ups else None


def input_schema(graph: Graph, *, follow_up: bool = False) -> dict[str, Json]:
    """Return the JSON Schema of the message; ``{"type": "null"}`` if the run needs none. A value that has no title is
    called as the start step's parameter.

    ``InvalidWorkflow`` if it has a pattern that cannot be checked.
    """
    schema = codec_for(input_type(graph, follow_up=follow_up)).schema()
    try:
        refuse_unsupported(schema)
    except UnsupportedPattern as error:
        verb = "follows up on" if follow_up else "starts"
        raise InvalidWorkflow(f"The type that {verb} {graph.name!r} cannot be used: {error}") from error
    named = {node.message for node in start_nodes(graph, follow_up=follow_up) if node.takes_message}
    if len(named) == 1 and not schema.keys() & {"title", "$ref", "properties"} and schema.get("type") != "null":
        return {"title": humanize(named.pop()), **schema}
    return schema


def accept_input(graph: Graph, message: Any, *, follow_up: bool = False) -> tuple[Any, Json]:
    """Return the message as its type and as JSON; ``InvalidInput`` with errors per field."""
    kind = input_type(graph, follow_up=follow_up)
    if kind is None:
        return None, None
    codec = codec_for(kind)
    try:
        value = codec.accept(message)
        return value, codec.encode(value, "message")
    except ValidationError as error:
        raise InvalidInput(type_problems(error, message)) from error
    except NotStorable as error:
        raise InvalidInput([{"loc": [], "msg": str(error)}]) from error


def accept_json(graph: Graph, message: Json, *, follow_up: bool = False) -> Json:
    """Return a JSON message as the run will receive it: checked by its schema, like a form, then by its type.

    ``InvalidInput`` with errors per field.
    """
    kind = input_type(graph, follow_up=follow_up)
    if kind is not None and (problems := schema_problems(codec_for(kind), message)):
        raise InvalidInput(problems)
    return accept_input(graph, message, follow_up=follow_up)[1]


def pack_input(graph: Graph, message: Any, *, follow_up: bool = False) -> tuple[Route, ...]:
    """Return the message on its way to every first step that accepts it."""
    value, _ = accept_input(graph, message, follow_up=follow_up)
    routes = []
    for name in begins(graph, follow_up=follow_up):
        node = graph.nodes[name]
        packed = pack_for_first(graph, node, value) if node.hidden else pack(node, None, value)
        if packed is not None:
            routes.append(Route(name, None, ((0, packed),)))
    return tuple(routes)
