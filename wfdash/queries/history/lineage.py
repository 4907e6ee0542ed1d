"""The tree of a run's checkpoints, and the ranges of events that led to each of them.

A checkpoint's events are those between the checkpoint before it *in time* and itself. Walking parents from a head
gives the ranges that count: abandoned branches are left out, what happened before a fork is included.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from checkpoints.models import Checkpoint
from checkpoints.records import Reason

COPIES = frozenset({Reason.RESTORE.value, Reason.FORK.value, Reason.EDIT.value, Reason.FOLLOW_UP.value})
"""Checkpoints that no event led to: the events just before them belong to the branch that was left."""

MAX_FORK_DEPTH = 100
"""Forks of forks are followed this far back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointNode:
    """A checkpoint's node in the tree."""

    id: str
    n: int
    parent: str | None
    seq: int
    reason: str = "step"


@dataclass(frozen=True, kw_only=True)
class EventRange:
    """Events of ``run`` with ``low < seq <= high``; ``high`` None: to the end."""

    run: str
    low: int
    high: int | None


def nodes_of(run_id: str) -> list[CheckpointNode]:
    """Return the run's whole tree, oldest first (one query, no content)."""
    rows = Checkpoint.objects.filter(run_id=run_id).order_by("n").values_list("id", "n", "parent", "seq", "reason")
    return [CheckpointNode(id=row[0], n=row[1], parent=row[2], seq=row[3], reason=row[4]) for row in rows]


def path_to(nodes: list[CheckpointNode], head: str | None = None) -> list[CheckpointNode]:
    """Return the checkpoints from ``head`` (default: the newest) back to this run's first, newest first."""
    known = {node.id: node for node in nodes}
    here = known.get(head) if head else (nodes[-1] if nodes else None)
    path: list[CheckpointNode] = []
    while here is not None:
        path.append(here)
        here = known.get(here.parent) if here.parent else None
    return path


def ranges_to(run_id: str, head: str | None = None) -> list[EventRange]:
    """Return the event ranges that led to ``head``; without one, to the newest checkpoint and beyond.

    One query, two more per fork it came from.
    """
    nodes = nodes_of(run_id)
    return current_ranges(run_id, nodes) if head is None else ranges_of(run_id, nodes, head)


def current_ranges(run_id: str, nodes: list[CheckpointNode]) -> list[EventRange]:
    """Return the event ranges that led to the newest checkpoint and beyond, given the run's tree."""
    now = EventRange(run=run_id, low=nodes[-1].seq if nodes else 0, high=None)
    return _merge([now, *ranges_of(run_id, nodes)])


def ranges_of(run_id: str, nodes: list[CheckpointNode], head: str | None = None) -> list[EventRange]:
    """Return the event ranges that led to ``head`` (default: the newest), given the tree; two queries per fork."""
    ranges: list[EventRange] = []
    for _ in range(MAX_FORK_DEPTH):
        path = path_to(nodes, head)
        ranges += _ranges(run_id, nodes, path)
        first = path[-1] if path else None
        origin = _forked_from(first)
        if origin is None or first is None:
            break
        run_id, head = origin, first.parent
        nodes = nodes_of(run_id)
    return _merge(ranges)


def newest_below(nodes: list[CheckpointNode], chosen: str) -> CheckpointNode | None:
    """Return the newest descendant of a checkpoint; itself without any, None if it is not in the tree."""
    below = {chosen}
    newest = None
    for node in nodes:
        if node.id in below or node.parent in below:
            below.add(node.id)
            newest = node
    return newest


def origins_of(run_id: str, nodes: list[CheckpointNode], head: str | None) -> list[tuple[str, list[CheckpointNode]]]:
    """Return (run, its checkpoints on the line to ``head``), the run's own first, then those it was forked from.

    Two queries per fork it came from.
    """
    found: list[tuple[str, list[CheckpointNode]]] = []
    for _ in range(MAX_FORK_DEPTH):
        path = path_to(nodes, head)
        found.append((run_id, path))
        first = path[-1] if path else None
        origin = _forked_from(first)
        if origin is None or first is None or origin == run_id:
            break
        run_id, head, nodes = origin, first.parent, nodes_of(origin)
    return found


def range_filter(ranges: list[EventRange]) -> Q:
    """Return the filter of events within these ranges."""
    either = Q(pk__in=[])
    for part in ranges:
        within = Q(run_id=part.run, seq__gt=part.low)
        either |= within if part.high is None else within & Q(seq__lte=part.high)
    return either


def _forked_from(first: CheckpointNode | None) -> str | None:
    """Return the run in which a run's first checkpoint has its parent; None where that is another run's own past."""
    if first is None or first.parent is None or first.reason == Reason.FOLLOW_UP:
        return None
    return Checkpoint.objects.filter(pk=first.parent).values_list("run_id", flat=True).first()


def _ranges(run_id: str, nodes: list[CheckpointNode], path: list[CheckpointNode]) -> list[EventRange]:
    before: dict[str, CheckpointNode | None] = {
        node.id: earlier for node, earlier in zip(nodes, [None, *nodes], strict=False)
    }
    ranges = []
    for node in path:
        earlier = before[node.id]
        if node.reason not in COPIES and node.parent == (earlier.id if earlier else None):
            ranges.append(EventRange(run=run_id, low=earlier.seq if earlier else 0, high=node.seq))
    return ranges


def _merge(ranges: list[EventRange]) -> list[EventRange]:
    """Return the ranges with neighbours joined, so that a run of ten thousand steps is one."""
    merged: list[EventRange] = []
    for part in ranges:
        last = merged[-1] if merged else None
        if last and last.run == part.run and last.low == part.high:
            merged[-1] = EventRange(run=last.run, low=part.low, high=last.high)
        else:
            merged.append(part)
    return merged
