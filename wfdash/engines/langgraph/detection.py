"""Which objects are graphs of LangGraph. Imports nothing of it: a module with a graph has imported it already."""

from __future__ import annotations

import sys
from collections.abc import Iterator

PLACES = (("langgraph.pregel", "Pregel"), ("langgraph.graph.state", "StateGraph"))


def is_graph(value: object) -> bool:
    """Return whether an object is a compiled graph, a builder of one, or an entrypoint of the functional API."""
    return any(isinstance(value, kind) for kind in _kinds())


def _kinds() -> Iterator[type]:
    for module, name in PLACES:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            yield kind
