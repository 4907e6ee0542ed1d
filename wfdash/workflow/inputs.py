"""A run's input: which start steps take it, as what, and what its form looks like."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from checkpoints.records import Json
from wfdash.contract import InvalidInput
from wfdash.workflow.codec import codec_for, either, is_any
from wfdash.workflow.errors import NotStorable
from wfdash.workflow.graph import Graph, Node
from wfdash.workflow.packing import pack
from wfdash.workflow.ticks import Route


def start_nodes(graph: Graph) -> list[Node]:
    """Return the nodes that take the input; a sub-workflow's start steps instead of its hidden way in."""
    found: list[Node] = []
    for name in graph.starts:
        node = graph.nodes[name]
        pending = [node]
        while pending:
            current = pending.pop(0)
            if current.hidden:
                pending += [graph.nodes[edge.target] for edge in current.out]
            else:
                found.append(current)
    return found


def input_type(graph: Graph) -> Any:
    """Return the type of the run's message: what the start steps take, ``A | B`` of several, None if nothing."""
    kinds = [node.takes for node in start_nodes(graph) if node.takes_message]
    if not kinds:
        return None
    return Any if any(is_any(kind) for kind in kinds) else either(kinds)


def input_schema(graph: Graph) -> dict[str, Json]:
    """Return the JSON Schema of the message; ``{"type": "null"}`` if the run needs none."""
    return codec_for(input_type(graph)).schema()


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
        raise InvalidInput([{"loc": list(e["loc"]), "msg": e["msg"]} for e in error.errors()]) from error
    except NotStorable as error:
        raise InvalidInput([{"loc": [], "msg": str(error)}]) from error


def pack_input(graph: Graph, message: Any) -> tuple[Route, ...]:
    """Return the message on its way to every start step that takes it."""
    value, _ = accept_input(graph, message)
    routes = []
    for name in graph.starts:
        node = graph.nodes[name]
        packed = _pack_hidden(graph, node, value) if node.hidden else pack(node, None, value)
        if packed is not None:
            routes.append(Route(name, None, ((0, packed),)))
    return tuple(routes)


def _pack_hidden(graph: Graph, node: Node, value: Any) -> list[Any] | None:
    """Write the message down for the way into a sub-workflow, as what its start step takes."""
    inner = next((graph.nodes[edge.target] for edge in node.out if not graph.nodes[edge.target].hidden), None)
    if inner is None or not inner.takes_message:
        return [None, None]
    return pack(node, None, value) if is_any(inner.takes) else pack_as(inner, value)


def pack_as(node: Node, value: Any) -> list[Any] | None:
    """Write a value down as the type a later node takes."""
    packed = pack(node, None, value)
    return None if packed is None else [f"{node.name}<{packed[0]}", packed[1]]
