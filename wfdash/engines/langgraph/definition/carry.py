"""Checkpoints of an older graph under the current one. LangGraph has no migrations, and needs none for what is added.

A run continues automatically where the graph gained channels and nodes, or lost nodes that the run does not wait for.
Everything else is an operator's decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkpoints.errors import Damaged, Incompatible
from checkpoints.records import Checkpoint
from wfdash.contract import Carried, Description
from wfdash.domain.graph_diff import compare
from wfdash.engines.langgraph.definition.describe import describe
from wfdash.engines.langgraph.definition.graphs import Ready
from wfdash.engines.langgraph.stored.thread import JOIN, NEXT, Space, Thread, path_of
from wfdash.engines.langgraph.stored.values import decode

SENDS = "__pregel_tasks"
"""The channel of nodes that come next with a message of their own (``Send``)."""
Route = tuple[str, str, str]
"""Source, target and kind of an edge."""


def carry(ready: Ready, checkpoint: Checkpoint, old: Description | None, *, override: bool) -> Carried:
    """Return the checkpoint's content under the current graph, unchanged.

    ``Incompatible`` without ``override``, unless the graph only gained or lost what the checkpoint does not depend on.
    With it, too, if a node that comes next is gone: LangGraph would finish the run without it, and say nothing.
    """
    thread, now = Thread.of(checkpoint.body), describe(ready)
    words = compare(old, now).words if old is not None else ()
    steps = {request.step for request in checkpoint.requests} - set(ready.steps)
    gone = sorted({*_missing(ready, thread), *steps})
    continues = old is not None and not gone and _keeps_its_ways(old, now) and _keeps_values(ready, old, now, thread)
    if not override and not continues:
        raise Incompatible(
            "The workflow changed since this run started"
            + (f": {'; '.join(words)}" if words else "")
            + ". LangGraph has no migrations: bring its old code back, or continue it on the current version"
        )
    if gone:
        raise Incompatible(f"The checkpoint continues at {', '.join(gone)}, which the graph no longer has")
    if override:
        return Carried(how="override", body=checkpoint.body, requests=checkpoint.requests)
    return Carried(how="added", body=checkpoint.body, requests=checkpoint.requests, words=words)


def _keeps_its_ways(old: Description, new: Description) -> bool:
    """Return whether the steps of both graphs follow each other in both, but for steps that only one of them has."""
    steps = {one.name for one in old.steps}, {one.name for one in new.steps}
    both, added, removed = steps[0] & steps[1], steps[1] - steps[0], steps[0] - steps[1]
    before, after = _routes(old), _routes(new)
    lost = {one for one in before - after if {*one[:2]} <= both}
    gained = {one for one in after - before if {*one[:2]} <= both}
    return all(_leads(one, after, added) for one in lost) and all(_leads(one, before, removed) for one in gained)


def _routes(described: Description) -> set[Route]:
    return {(edge.source, edge.target, edge.kind) for edge in described.edges}


def _leads(route: Route, routes: set[Route], through: set[str]) -> bool:
    """Return whether a way leads from a route's source to its target through none but these steps."""
    start, end, _ = route
    reached, fresh = set[str](), {target for source, target, _ in routes if source == start} & through
    while fresh:
        reached |= fresh
        fresh = ({target for source, target, _ in routes if source in fresh} & through) - reached
    return any(source in reached and target == end for source, target, _ in routes)


def _keeps_values(ready: Ready, old: Description, new: Description, thread: Thread) -> bool:
    """Return whether each value of a checkpoint has its place in the graph, and whatever waits for several nodes.

    False where it is not known what the old graph kept, and for a graph that is none of nodes and edges.
    """
    before, after = ({(one.parent, one.name): one.kind for one in graph.channels} for graph in (old, new))
    declared = {(one.parent, one.name) for one in old.channels if not one.hidden and one.parent in ready.levels}
    used = {
        (path_of(ns), name)
        for ns, space in thread.spaces.items()
        for name in (*space.values, *(channel for _, channel, _ in space.pending()))
    }
    joins = [{place for place in kinds if place[1].startswith(JOIN)} for kinds in (before, after)]
    built = all(getattr(graph, "builder", None) is not None for graph in ready.levels.values())
    same = all(before.get(place) == after.get(place) for place in declared | used)
    return bool(before) and built and same and joins[0] == joins[1]


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
        yield from (f"{path}/{name}" if path else name for name in _following(space) if name not in level.nodes)


def _following(space: Space) -> Iterator[str]:
    """Yield the nodes that come next. ``Incompatible`` if a message to one cannot be read."""
    written = [(channel, stored) for _, channel, stored in space.pending()]
    for channel, stored in (*space.values.items(), *written):
        if channel.startswith(NEXT):
            yield channel.removeprefix(NEXT)
        elif channel == SENDS:
            try:
                held = decode(stored)
            except Damaged as error:
                raise Incompatible(str(error)) from error
            yield from (one.node for one in (held if isinstance(held, list) else [held]))
