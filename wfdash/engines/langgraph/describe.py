"""Description of a graph for people: its nodes as steps, its edges, what it takes and gives."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from langgraph import types as langgraph_types
from langgraph.channels.base import BaseChannel

from checkpoints.ids import WorkflowId
from checkpoints.records import Json
from wfdash.contract import ChannelInfo, Description, EdgeInfo, StepInfo
from wfdash.domain.labels import humanize, label_of_step
from wfdash.engines.langgraph.graphs import Graph, Ready, function_of
from wfdash.engines.langgraph.schemas import follow_up_schema, input_of, output_schema
from wfdash.engines.langgraph.thread import is_hidden
from wfdash.engines.serving import NotServable
from wfdash.values.codec import type_name
from wfdash.values.schemas.secrets import secret_names

UNNAMED = "LangGraph"
"""The name of every graph that its author gave none."""
START, END = "__start__", "__end__"
NO_CONTEXT = (
    "**`runtime.context` is None in every node.** The graph expects a {name}, of which no form can be made: give its "
    "values by `serve(graph, context=...)`, the same for all runs."
)
ANY_ANSWER = (
    "**People may answer {steps} with anything**, because the code does not say what an answer is: give its type by "
    "`interrupt(..., response_schema=...)` or `serve(graph, answers=...)`."
)
Drawn: TypeAlias = dict[str, list[tuple[str, str, str, bool]]]
"""The path of a graph -> its edges: source, target, label, and whether the graph decides."""
_described: WeakKeyDictionary[Ready, Description] = WeakKeyDictionary()


def describe(ready: Ready) -> Description:
    """Return a graph's description. ``NotServable`` for one without nodes."""
    if ready not in _described:
        _described[ready] = _describe(ready)
    return _described[ready]


def _describe(ready: Ready) -> Description:
    served, graph = ready.served, ready.graph
    own = graph.name if graph.name != UNNAMED else ""
    name = served.name or own or served.variable
    if not name:
        raise NotServable("The graph has no name: give compile(name=...) or serve(graph, name=...)")
    if not ready.steps:
        raise NotServable(f"{name}: the graph has no nodes")
    if getattr(graph, "builder", None) is not None:  # Of a function not all tasks are known.
        served.check_steps(ready.steps)
    edges = tuple(_edges(ready))
    return Description(
        workflow=WorkflowId(name),
        title=served.title or humanize(name),
        doc="\n\n".join(one for one in (served.doc or _doc_of(graph), _lacks(ready), _asks_openly(ready)) if one),
        engine="langgraph",
        version=_version(ready, edges),
        input_schema=input_of(ready).schema(),
        output_schema=output_schema(graph),
        follow_up_schema=follow_up_schema(ready),
        queue=served.queue,
        limit=served.limit,
        steps=tuple(_step(ready, path) for path in ready.steps),
        edges=edges,
        channels=tuple(_channels(ready)),
    )


def _doc_of(graph: Graph) -> str:
    """Return the text of an entrypoint's function."""
    nodes = [node for name, node in graph.nodes.items() if not is_hidden(name)]
    function = function_of(nodes[0]) if len(nodes) == 1 and getattr(graph, "builder", None) is None else None
    return inspect.getdoc(function) or "" if function is not None else ""


def _lacks(ready: Ready) -> str:
    """Return that no run has the context that nodes expect, as no form can be made of its type; empty if it has."""
    kind = getattr(ready.graph, "context_schema", None)
    if ready.served.context is not None or not isinstance(kind, type) or input_of(ready).context:
        return ""
    return NO_CONTEXT.format(name=kind.__name__)


def _asks_openly(ready: Ready) -> str:
    """Return which steps ask questions without a known type of answer, as far as their code says; empty for none."""
    steps = [path for path in ready.steps if path not in ready.served.answers and _is_untyped(ready.steps[path])]
    return ANY_ANSWER.format(steps=", ".join(f"`{path}`" for path in steps)) if steps else ""


def _is_untyped(node: Any) -> bool:
    function = function_of(node)
    code = getattr(function, "__code__", None)
    if function is None or not isinstance(code, CodeType) or not asks(function) or _is_middleware(code):
        return False
    # The names of a call's keywords are one constant.
    said = {name for one in code.co_consts for name in (one if isinstance(one, tuple) else (one,))}
    return not said & {"response_schema", "action_request", "action_requests"}


def _is_middleware(code: CodeType) -> bool:
    """Return whether this is LangChain's middleware for approvals, whose answers are known."""
    return code.co_filename.endswith("human_in_the_loop.py")


def _step(ready: Ready, path: str) -> StepInfo:
    node, function = ready.steps[path], function_of(ready.steps[path])
    parent, _, name = path.rpartition("/")
    breaks = [ready.breaks(parent, before=side) for side in (True, False)]
    return StepInfo(
        name=path,
        title=label_of_step(name.replace("Middleware.", ".")),
        doc=(inspect.getdoc(function) or "").partition("\n\n")[0] if function is not None else "",
        person=(function is not None and asks(function)) or any(nodes is None or name in nodes for nodes in breaks),
        parent=parent or None,
        gives=_gives(node, function),
    )


def _gives(node: Any, function: Callable[..., Any] | None) -> str:
    kind = getattr(function, "__annotations__", {}).get("return") if function is not None else None
    return "" if kind is None or isinstance(kind, str) else type_name(kind)


def asks(function: Callable[..., Any]) -> bool:
    """Return whether a function calls ``interrupt``, as far as its code says; middleware for approvals does."""
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if not isinstance(code, CodeType):
        return False
    if _is_middleware(code):
        return "decision" in " ".join((*code.co_names, *code.co_varnames))
    known = {name for name in code.co_names if names.get(name) is langgraph_types.interrupt}
    return bool(known) or ("interrupt" in code.co_names and langgraph_types in map(names.get, code.co_names))


# -- edges


def _edges(ready: Ready) -> Iterator[EdgeInfo]:
    """Yield the edges between steps: one to a node that is a graph leads to where that begins."""
    inside = {path: list(_drawn(graph)) for path, graph in ready.levels.items() if not path or path in ready.whole}
    seen: set[tuple[str, str]] = set()
    for path, drawn in inside.items():
        for source, target, label, conditional in drawn:
            if START in (source, target) or END in (source, target):
                continue
            for left in _ends(inside, _at(path, source)):
                for right in _starts(inside, _at(path, target)):
                    if (left, right) not in seen:
                        seen.add((left, right))
                        yield EdgeInfo(source=left, target=right, kind="case" if conditional else "plain", label=label)


def _drawn(graph: Graph) -> list[tuple[str, str, str, bool]]:
    found = graph.get_graph().edges
    return sorted((one.source, one.target, _label(one.data, one.target), bool(one.conditional)) for one in found)


def _label(data: Any, target: str) -> str:
    text = "" if data is None else str(data)
    return "" if text == target else text


def _at(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _starts(inside: Drawn, path: str) -> list[str]:
    if path not in inside:
        return [path]
    first = [target for source, target, *_ in inside[path] if source == START and target != END]
    return [one for name in first for one in _starts(inside, _at(path, name))]


def _ends(inside: Drawn, path: str) -> list[str]:
    if path not in inside:
        return [path]
    last = [source for source, target, *_ in inside[path] if target == END and source != START]
    return [one for name in last for one in _ends(inside, _at(path, name))]


# -- version, code, secrets


def _version(ready: Ready, edges: tuple[EdgeInfo, ...]) -> str:
    """Return a text that differs if a stored checkpoint could not be continued: of nodes, edges, and what is kept.

    Nothing in it depends on where a file lies.
    """
    kept: dict[str, list[str]] = {path: [] for path in ready.levels}
    for one in _channels(ready):
        kept[one.parent].append(f"{one.name} {one.kind}")
    content: Json = [
        sorted(ready.steps),
        [[one.source, one.target, one.kind] for one in edges],
        {path: sorted(channels) for path, channels in kept.items()},
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _channels(ready: Ready) -> Iterator[ChannelInfo]:
    for path, graph in ready.levels.items():
        for name, one in sorted(graph.channels.items()):
            if isinstance(one, BaseChannel):
                yield ChannelInfo(name=name, kind=type(one).__name__, parent=path, hidden=is_hidden(name))


def code_places(ready: Ready) -> tuple[tuple[str, str, int], ...]:
    """Return the name, file and first line of each node that is a Python function."""
    codes = ((path, getattr(function_of(node), "__code__", None)) for path, node in ready.steps.items())
    return tuple((path, code.co_filename, code.co_firstlineno) for path, code in codes if code is not None)


def secrets_of(ready: Ready) -> frozenset[str]:
    """Return the fields that are secret: those that ``serve`` names, and those of the state's types."""
    schemas = (secret_names(input_of(ready).schema()), secret_names(output_schema(ready.graph)))
    return ready.served.secrets.union(*schemas)
