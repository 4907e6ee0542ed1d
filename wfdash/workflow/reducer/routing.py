"""Routing of values: a run's input to the steps that accept it, a step's along its edges, encoded for each receiver.

A packed value is ``[code, json]``. Codes: None plain JSON; an index into the receiver's ``accepts``;
``"step<i"`` one into another node's ``accepts``; ``"step:i"`` one into a producer's ``produces``; ``"step*i"``
the same for the items of its list; ``"*"`` a list of packed values.

A run begins with the steps with ``start=True``, one that follows a completed run with those with ``follow_up=True``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from checkpoints.records import Json, JsonObject
from wfdash.contract import InvalidInput
from wfdash.domain.labels import humanize
from wfdash.domain.search_attributes import summary_of, title_of
from wfdash.values.codec import (
    Codec,
    codec_for,
    either,
    is_any,
    item_type,
    members,
    schema_problems,
    type_name,
    type_problems,
)
from wfdash.values.schemas.work import UnsupportedPattern, refuse_unsupported
from wfdash.workflow.errors import InvalidWorkflow, NotStorable, WrongType
from wfdash.workflow.graph import Edge, Graph, Node
from wfdash.workflow.reducer.ticks import Route
from wfdash.workflow.stored import Packed

PLAIN = codec_for(Any)


def fitting(codecs: tuple[Codec, ...], value: Any) -> int | None:
    """Return the index of the value's type, exact matches first; None if there is none."""
    for index, codec in enumerate(codecs):
        if codec.kind is type(value):
            return index
    return next((index for index, codec in enumerate(codecs) if codec.fits(value)), None)


def pack(node: Node, source: Node | None, value: Any, *, item: bool = False) -> Packed | None:
    """Return the value encoded for ``node``; None if its type does not accept it."""
    if not node.takes_message:
        return [None, None]
    path = f"output of {source.name!r}" if source else "message"
    if node.accepts is not None:
        index = fitting(node.accepts, value)
        return None if index is None else [index, node.accepts[index].encode(value, path)]
    if isinstance(value, list) and source is None:
        return [None, PLAIN.encode(value, path)]
    return pack_output(source, value, item=item) if source else [None, PLAIN.encode(value, path)]


def first_steps(graph: Graph, node: Node) -> list[Node]:
    """Return the node itself, or the steps behind a hidden entry, however deep."""
    if not node.hidden:
        return [node]
    return [found for edge in node.out for found in first_steps(graph, graph.nodes[edge.target])]


def pack_for_first(graph: Graph, node: Node, value: Any) -> Packed | None:
    """Return the value encoded for an entry of a sub-workflow, as one of the steps behind it accepts it; None if none
    does.

    For a value whose producer declares no type: a run's message that passes from one entry to the next.
    """
    inner = [step for step in first_steps(graph, node) if step.takes_message]
    if not inner:
        return [None, None]
    for step in inner:
        if not is_any(step.takes) and (packed := pack(step, None, value)) is not None:
            return [f"{step.name}<{packed[0]}", packed[1]]
    return pack(node, None, value) if any(is_any(step.takes) for step in inner) else None


def _pack_along(graph: Graph, edge: Edge, source: Node, value: Any, *, item: bool) -> Packed | None:
    target = graph.nodes[edge.target]
    if edge.kind == "enter" and target.hidden and source.produces is None:
        return pack_for_first(graph, target, value)
    return pack(target, source, value, item=item)


def pack_output(source: Node, value: Any, *, item: bool = False) -> Packed:
    """Return the value encoded as its producer declares."""
    path = f"output of {source.name!r}"
    codecs, mark = (item_codecs(source), "*") if item else (source.produces, ":")
    index = fitting(codecs, value) if codecs is not None else None
    if codecs is None or index is None:
        return [None, PLAIN.encode(value, path)]
    return [f"{source.name}{mark}{index}", codecs[index].encode(value, path)]


def item_codecs(node: Node) -> tuple[Codec, ...] | None:
    """Return the codecs for the items of a node's list."""
    kind = item_type(node.gives)
    return None if is_any(kind) else tuple(codec_for(member) for member in members(kind))


def unpack(graph: Graph, node: Node, packed: Packed) -> Any:
    """Return a decoded value: a new object each time."""
    code, data = packed
    path = f"message of {node.name!r}"
    if code == "*":
        return [unpack(graph, node, part) for part in data]
    return codec_of(graph, node, code).decode(data, path)


def codec_of(graph: Graph, node: Node, code: Any) -> Codec:
    """Return the codec of a packed value that is no list of them; that of plain JSON where no type is declared."""
    if code is None:
        return PLAIN
    if isinstance(code, int):
        return node.accepts[code] if node.accepts else PLAIN
    mark = next(mark for mark in "*:<" if mark in code)
    name, index = code.rsplit(mark, 1)
    if mark == "<":
        return codec_of(graph, graph.nodes[name], None if index == "None" else int(index))
    codecs = item_codecs(graph.nodes[name]) if mark == "*" else graph.nodes[name].produces
    return codecs[int(index)] if codecs else PLAIN


def label_of(graph: Graph, node: Node, packed: Packed, template: str = "") -> str:
    """Return what an item of a map is called: as a template says, else its first short values. None is a secret."""
    code, data = packed
    if code == "*" or "" in codec_of(graph, node, code).secret_names:
        return ""
    return title_of(template, data, graph.secrets) if template else summary_of(data, {}, graph.secrets)


def plain(packed: Packed) -> Json:
    """Return a packed value as JSON for people and external systems."""
    code, data = packed
    return [plain(part) for part in data] if code == "*" else data


def check_output(node: Node, value: Any) -> None:
    """Raise ``WrongType`` if a step returned something else than it declares."""
    if node.produces is not None and not node.hidden and fitting(node.produces, value) is None:
        raise WrongType(
            f"step {node.name!r} returned {type(value).__name__}, its annotation says {type_name(node.gives)}"
        )


def route(graph: Graph, node: Node, value: Any) -> tuple[list[Route], Packed | None]:
    """Return the routes of a value; and the value itself, if no edge takes it (an output, or a loose end)."""
    check_output(node, value)
    whole = _edges_taken(graph, node, node.whole_out, value, item=False)
    routes = [Route(edge.target, edge, ((0, packed),)) for edge, packed in whole]
    if node.item_out and isinstance(value, list):
        routes += _route_items(graph, node, value)
    return routes, None if routes else pack_output(node, value)


def _route_items(graph: Graph, node: Node, items: list[Any]) -> list[Route]:
    taken: dict[int, list[tuple[int, Packed]]] = {edge.index: [] for edge in node.item_out}
    for place, item in enumerate(items):
        for edge, packed in _edges_taken(graph, node, node.item_out, item, item=True):
            taken[edge.index].append((place, packed))
    return [Route(edge.target, edge, tuple(taken[edge.index])) for edge in node.item_out]


def _edges_taken(
    graph: Graph, node: Node, edges: tuple[Edge, ...], value: Any, *, item: bool
) -> Iterator[tuple[Edge, Packed]]:
    matched = False
    cases: dict[str, Any] = {}
    later: list[Edge] = []
    for edge in edges:
        if edge.switch is not None and edge.switch not in cases:
            if edge.key is None:
                raise AssertionError("a switch has a key")
            found = edge.key(value)
            known = [other.case for other in edges if other.switch == edge.switch and not other.default]
            cases[edge.switch] = found if found in known else DEFAULT
        if edge.otherwise:
            later.append(edge)
            continue
        if not _goes(edge, value, cases):
            continue
        packed = _pack_along(graph, edge, node, value, item=item)
        if packed is not None:
            matched = matched or edge.when is not None
            yield edge, packed
    for edge in later if not matched else ():
        packed = _pack_along(graph, edge, node, value, item=item)
        if packed is not None and _goes(edge, value, cases):
            yield edge, packed


DEFAULT = object()


def _goes(edge: Edge, value: Any, cases: dict[str, Any]) -> bool:
    if edge.switch is not None:
        found = cases[edge.switch]
        if (found is DEFAULT) != edge.default or (not edge.default and found != edge.case):
            return False
    return edge.when is None or bool(edge.when(value))


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


def follow_up_schema(graph: Graph) -> JsonObject | None:
    """Return the JSON Schema of the message that follows up on a completed run; None where no step takes one."""
    return input_schema(graph, follow_up=True) if graph.follow_ups else None


def input_schema(graph: Graph, *, follow_up: bool = False) -> JsonObject:
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
