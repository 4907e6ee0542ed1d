"""The tree of a run's checkpoints, and which stretch of which run's events led to one of them.

A checkpoint's events are those between the checkpoint before it *in time* and itself. Walking parents from a head
gives the stretches that count: what an abandoned branch did is not among them, what happened before a fork is.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from checkpoints.models import Checkpoint
from checkpoints.records import Reason

COPIES = frozenset({Reason.RESTORE.value, Reason.FORK.value, Reason.EDIT.value})
"""Checkpoints that no event led to: what came just before them belongs to the branch that was left."""

DEEPEST = 100
"""Forks of forks are followed this far back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A checkpoint's place in the tree."""

    id: str
    n: int
    parent: str | None
    seq: int
    reason: str = "step"


@dataclass(frozen=True, kw_only=True)
class Span:
    """Events of ``run`` with ``low < seq <= high``; ``high`` None: to the end."""

    run: str
    low: int
    high: int | None


def nodes_of(run_id: str) -> list[Node]:
    """Return the run's whole tree, oldest first (one query, no content)."""
    rows = Checkpoint.objects.filter(run_id=run_id).order_by("n").values_list("id", "n", "parent", "seq", "reason")
    return [Node(id=row[0], n=row[1], parent=row[2], seq=row[3], reason=row[4]) for row in rows]


def path_to(nodes: list[Node], head: str | None = None) -> list[Node]:
    """Return the checkpoints from ``head`` (default: the newest) back to this run's first, newest first."""
    known = {node.id: node for node in nodes}
    here = known.get(head) if head else (nodes[-1] if nodes else None)
    path: list[Node] = []
    while here is not None:
        path.append(here)
        here = known.get(here.parent) if here.parent else None
    return path


def spans_to(run_id: str, head: str | None = None) -> list[Span]:
    """Return the stretches of events that led to ``head``; without one, to the newest and on to what happens now.

    One query, two more per fork it came from.
    """
    nodes = nodes_of(run_id)
    return spans_now(run_id, nodes) if head is None else spans_of(run_id, nodes, head)


def spans_now(run_id: str, nodes: list[Node]) -> list[Span]:
    """Return the stretches that led to the newest and on to what happens now, given the run's tree."""
    now = Span(run=run_id, low=nodes[-1].seq if nodes else 0, high=None)
    return _merge([now, *spans_of(run_id, nodes)])


def spans_of(run_id: str, nodes: list[Node], head: str | None = None) -> list[Span]:
    """Return the stretches that led to ``head`` (default: the newest), given the run's tree; two queries per fork."""
    spans: list[Span] = []
    for _ in range(DEEPEST):
        path = path_to(nodes, head)
        spans += _stretches(run_id, nodes, path)
        first = path[-1] if path else None
        origin = _owner(first.parent) if first and first.parent else None
        if origin is None or first is None:
            break
        run_id, head = origin, first.parent
        nodes = nodes_of(run_id)
    return _merge(spans)


def newest_below(nodes: list[Node], chosen: str) -> Node | None:
    """Return the newest checkpoint that grew out of the chosen one; itself if none did, None if it is not there."""
    below = {chosen}
    newest = None
    for node in nodes:
        if node.id in below or node.parent in below:
            below.add(node.id)
            newest = node
    return newest


def origins_of(run_id: str, nodes: list[Node], head: str | None) -> list[tuple[str, list[Node]]]:
    """Return (run, its checkpoints on the line to ``head``), the run's own first, then those it was forked from.

    Two queries per fork it came from.
    """
    found: list[tuple[str, list[Node]]] = []
    for _ in range(DEEPEST):
        path = path_to(nodes, head)
        found.append((run_id, path))
        parent = path[-1].parent if path else None
        origin = _owner(parent) if parent else None
        if origin is None or origin == run_id:
            break
        run_id, head, nodes = origin, parent, nodes_of(origin)
    return found


def span_filter(spans: list[Span]) -> Q:
    """Return the filter of events within these stretches."""
    either = Q(pk__in=[])
    for span in spans:
        within = Q(run_id=span.run, seq__gt=span.low)
        either |= within if span.high is None else within & Q(seq__lte=span.high)
    return either


def _owner(checkpoint_id: str) -> str | None:
    return Checkpoint.objects.filter(pk=checkpoint_id).values_list("run_id", flat=True).first()


def _stretches(run_id: str, nodes: list[Node], path: list[Node]) -> list[Span]:
    before: dict[str, Node | None] = {node.id: earlier for node, earlier in zip(nodes, [None, *nodes], strict=False)}
    spans = []
    for node in path:
        earlier = before[node.id]
        if node.reason not in COPIES and node.parent == (earlier.id if earlier else None):
            spans.append(Span(run=run_id, low=earlier.seq if earlier else 0, high=node.seq))
    return spans


def _merge(spans: list[Span]) -> list[Span]:
    """Join neighbours, so that a run of ten thousand steps is one stretch."""
    merged: list[Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        if last and last.run == span.run and last.low == span.high:
            merged[-1] = Span(run=last.run, low=span.low, high=last.high)
        else:
            merged.append(span)
    return merged
