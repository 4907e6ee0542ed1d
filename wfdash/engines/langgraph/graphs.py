"""The graphs that are served: found among a module's objects, made ready once, and with their subgraphs by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from wfdash.engines.langgraph.thread import is_hidden
from wfdash.engines.serving import NotServable, Served

Graph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True, eq=False)
class Ready:
    """A compiled graph and how it is served."""

    served: Served
    graph: Graph
    levels: Mapping[str, Graph] = field(default_factory=dict)
    """The path of a subgraph (``planner/research``) -> the subgraph; the empty path: the graph itself."""

    @cached_property
    def whole(self) -> dict[str, Graph]:
        """The path of each node that is nothing but a graph -> that graph: its nodes are shown in its place."""
        found = {}
        for path, inner in self.levels.items():
            above, _, name = path.rpartition("/")
            node = self.levels[above].nodes.get(name) if path and above in self.levels else None
            if node is not None and node.bound is inner and (not above or above in found):
                found[path] = inner
        return found

    @cached_property
    def steps(self) -> dict[str, Any]:
        """Every node that people see: its path -> the node."""
        whole = self.whole
        return {
            place: node
            for path, graph in self.levels.items()
            for name, node in graph.nodes.items()
            if (not path or path in whole) and not is_hidden(name)
            if (place := f"{path}/{name}" if path else name) not in whole
        }

    def step_named(self, path: str) -> str:
        """Return the step of a node: itself, or the one that calls it where the graph does not declare it."""
        steps, nearest = self.steps, path
        while nearest not in steps and "/" in nearest:
            nearest = nearest.rpartition("/")[0]
        return nearest if nearest in steps else path

    def breaks(self, path: str, *, before: bool) -> frozenset[str] | None:
        """Return the nodes of a level before or after which it stands still; None: all of them."""
        graph = self.levels.get(path)
        nodes = () if graph is None else graph.interrupt_before_nodes if before else graph.interrupt_after_nodes
        return None if nodes == "*" else frozenset(nodes)


def ready(served: Served) -> Ready:
    """Return the graph of what is served. ``NotServable``; what the library raises for a graph that is not valid."""
    return Ready(served, graph := compiled(served.make()), {"": graph, **dict(_levels(graph))})


def compiled(target: Any) -> Graph:
    """Return a graph, or what a builder compiles to."""
    if isinstance(target, Pregel):
        return target
    if isinstance(target, StateGraph):
        return target.compile()
    raise NotServable(f"{type(target).__name__} is no graph of LangGraph: serve a StateGraph or what it compiles to")


def _levels(graph: Graph) -> Iterator[tuple[str, Graph]]:
    for path, inner in graph.get_subgraphs(recurse=True):
        if isinstance(inner, Pregel):
            yield path.replace("|", "/"), inner


def function_of(node: Any) -> Callable[..., Any] | None:
    """Return the function of a node, None for a node that is none of the author's."""
    bound = getattr(node, "bound", None)
    for name in ("func", "afunc"):
        if callable(found := getattr(bound, name, None)):
            found = getattr(found, "func", found)
            return inspect.unwrap(found) if inspect.isroutine(found) else None
    return None


def parts_of(served: Served) -> list[object]:
    """Return the builder of a graph, and the graphs in it with theirs; nothing of a graph that is not valid."""
    if served.factory:
        return []
    try:
        levels = ready(served).levels
    except Exception:  # Describing it says what is wrong.
        return []
    found = [graph for path, graph in levels.items() if path]
    builders = (getattr(graph, "builder", None) for graph in levels.values())
    return [*found, *(one for one in builders if one is not None and one is not served.target)]
