"""The steps and calls in progress at a checkpoint. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from checkpoints.records import Phase, Standing
from wfdash.contract import InFlight
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.stored.position import JournalEntry, Position

RESTING = {"queued", "parked", "retry_at"}
SETTLED = {"result", "raised", "stopped"}


def in_flight(graph: Graph, position: Position) -> InFlight:
    """Return the steps whose functions ran when this was saved, and the ``once`` calls of unknown outcome."""
    live = position.get("live", {}).values()
    running = [one for one in live if not RESTING & one.keys() and not _is_hidden(graph, one["step"])]
    calls = [entry["name"] for one in live for entry in one["journal"] if _is_unsure(entry)]
    return InFlight(steps=_once_each(one["step"] for one in running), calls=_once_each(calls))


def parked_standing(position: Position, until: datetime | None, *, asked: bool) -> Standing:
    """Return the standing of a run that can do nothing before ``until``, or before people who were ``asked`` answer."""
    if asked:
        return Standing(phase=Phase.WAITING, wake_at=until)
    waits = [activation for activation in position["live"].values() if "retry_at" in activation]
    if not waits:
        return Standing(phase=Phase.SLEEPING, wake_at=until)
    first = min(waits, key=lambda activation: str(activation["retry_at"]))
    return Standing(phase=Phase.RETRYING, wake_at=until, attempt=first["attempt"], attempts=first["attempts"])


def _is_hidden(graph: Graph, step: str) -> bool:
    return step in graph.nodes and graph.nodes[step].hidden


def _is_unsure(entry: JournalEntry) -> bool:
    return bool(entry.get("once")) and not SETTLED & entry.keys()


def _once_each(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
