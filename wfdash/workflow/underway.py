"""What a checkpoint says is in the middle of being done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wfdash.contract import UnderWay
from wfdash.workflow.graph import Graph

RESTING = {"queued", "parked", "retry_at"}
SETTLED = {"result", "raised", "stopped"}


def under_way(graph: Graph, position: Mapping[str, Any]) -> UnderWay:
    """Return the steps whose functions ran when this was saved, and the ``once`` calls of unknown outcome."""
    live = position.get("live", {}).values()
    running = [act for act in live if not RESTING & act.keys() and not _is_hidden(graph, act["step"])]
    calls = [entry["name"] for act in live for entry in act["journal"] if _is_unsure(entry)]
    return UnderWay(steps=_once_each(act["step"] for act in running), calls=_once_each(calls))


def _is_hidden(graph: Graph, step: str) -> bool:
    return step in graph.nodes and graph.nodes[step].hidden


def _is_unsure(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("once")) and not SETTLED & entry.keys()


def _once_each(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
