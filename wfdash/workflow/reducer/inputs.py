"""A run's input: which start steps accept it, as which type, and its form."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from checkpoints.records import Json
from wfdash.contract import InvalidInput
from wfdash.domain.labels import humanize
from wfdash.schemas.regex import UnsupportedPattern, refuse_unsupported
from wfdash.values.codec import codec_for, either, is_any
from wfdash.values.validate_json import schema_problems, type_problems
from wfdash.workflow.compiler.graph import Graph, Node
from wfdash.workflow.errors import InvalidWorkflow, NotStorable
from wfdash.workflow.reducer.routing import first_steps, pack, pack_for_first
from wfdash.workflow.reducer.ticks import Route


def start_nodes(graph: Graph) -> list[Node]:
    """Return the nodes that receive the input; a sub-workflow's start steps instead of its hidden entry."""
    return [found for name in graph.starts for found in first_steps(graph, graph.nodes[name])]


def input_type(graph: Graph) -> Any:
    """Return the type of the run's message: that of the start steps, ``A | B`` of several, None without one."""
    kinds = [node.takes for node in start_nodes(graph) if node.takes_message]
    if not kinds:
        return None
    return Any if any(is_any(kind) for kind in kinds) else either(kinds)


def input_schema(graph: Graph) -> dict[str, Json]:
    """Return the JSON Schema of the message; ``{"type": "null"}`` if the run needs none. A value that has no title is
    called as the start step's parameter.

    ``InvalidWorkflow`` if it has a pattern that cannot be checked.
    """
    schema = codec_for(input_type(graph)).schema()
    try:
        refuse_unsupported(schema)
    except UnsupportedPattern as error:
        raise InvalidWorkflow(f"The type that starts {graph.name!r} cannot be used: {error}") from error
    named = {node.message for node in start_nodes(graph) if node.takes_message}
    if len(named) == 1 and not schema.keys() & {"title", "$ref", "properties"} and schema.get("type") != "null":
        return {"title": humanize(named.pop()), **schema}
    return schema


def accept_input(graph: Graph, message: Any) -> tuple[Any, Json]:
    """Return the message as its type and as JSON; ``InvalidInput`` with errors per field."""
    kind = input_type(graph)
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


def accept_json(graph: Graph, message: Json) -> Json:
    """Return a JSON message as the run will receive it: checked by its schema, like a form, then by its type.

    ``InvalidInput`` with errors per field.
    """
    kind = input_type(graph)
    if kind is not None and (problems := schema_problems(codec_for(kind), message)):
        raise InvalidInput(problems)
    return accept_input(graph, message)[1]


def pack_input(graph: Graph, message: Any) -> tuple[Route, ...]:
    """Return the message on its way to every start step that accepts it."""
    value, _ = accept_input(graph, message)
    routes = []
    for name in graph.starts:
        node = graph.nodes[name]
        packed = pack_for_first(graph, node, value) if node.hidden else pack(node, None, value)
        if packed is not None:
            routes.append(Route(name, None, ((0, packed),)))
    return tuple(routes)
