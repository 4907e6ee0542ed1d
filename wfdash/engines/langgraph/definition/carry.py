"""Checkpoints of an older graph under the current one. LangGraph has no migrations: an operator decides."""

from __future__ import annotations

from collections.abc import Iterator

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint
from wfdash.contract import Carried, Description
from wfdash.domain.graph_diff import compare
from wfdash.engines.langgraph.definition.describe import describe
from wfdash.engines.langgraph.definition.graphs import Ready
from wfdash.engines.langgraph.stored.thread import Thread, path_of

NEXT = "branch:to:"
"""How the channel begins that says which node comes next."""


def carry(ready: Ready, checkpoint: Checkpoint, old: Description | None, *, override: bool) -> Carried:
    """Return the checkpoint's content under the current graph, unchanged. ``Incompatible`` without ``override``.

    With it, too, if a node that comes next is gone: LangGraph would finish the run without it, and say nothing.
    """
    thread = Thread.of(checkpoint.body)
    if not override:
        words = compare(old, describe(ready)).summary if old is not None else ""
        raise Incompatible(
            "The workflow changed since this run started"
            + (f": {words}" if words else "")
            + ". LangGraph has no migrations: bring its old code back, or continue it on the current version"
        )
    steps = {request.step for request in checkpoint.requests} - set(ready.steps)
    if gone := sorted({*_missing(ready, thread), *steps}):
        raise Incompatible(f"The checkpoint continues at {', '.join(gone)}, which the graph no longer has")
    return Carried(how="override", body=checkpoint.body, requests=checkpoint.requests)


def _missing(ready: Ready, thread: Thread) -> Iterator[str]:
    """Yield the paths of the nodes that come next and that the graph does not have."""
    for ns, space in thread.spaces.items():
        path = path_of(ns)
        level = ready.levels.get(path)
        if level is None:
            # A graph that the function of a node calls is none of the levels.
            parts = path.split("/")
            if not any("/".join(parts[:length]) in ready.steps for length in range(1, len(parts) + 1)):
                yield path
            continue
        following = (name.removeprefix(NEXT) for name in space.values if name.startswith(NEXT))
        yield from (f"{path}/{name}" if path else name for name in following if name not in level.nodes)
