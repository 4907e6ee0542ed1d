"""A run's past: events, and checkpoints as a tree with branches."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models.fields.json import KT

from checkpoints import models
from checkpoints.ids import RunId
from checkpoints.records import CheckpointInfo, Event, Json
from checkpoints.rows import info_of
from wfdash.access import Viewer
from wfdash.errors import NotFound
from wfdash.queries.lineage import COPIES, Node, nodes_of, path_to
from wfdash.queries.secrets import masked_data

PLAIN = frozenset(
    {
        *("activation", "item", "attempt", "attempts", "at", "until", "ms", "by", "verdict", "subject", "key", "name"),
        *("request", "checkpoint", "n", "run", "worker", "epoch", "fraction"),
        *("how", "from", "to", "words", "version", "level", "logger", "fenced", "unsure", "after"),
    }
)
"""What an event may say to those who may not inspect values."""


@dataclass(frozen=True, kw_only=True)
class CheckpointRow:
    """A checkpoint in the rail. ``lane`` 0 is the line the run stands on, 1, 2 ... are abandoned branches.

    ``by``: who made it, by restoring, forking or editing. ``parent_n``: the one it was made from, where that is not
    the one before. ``forks``: runs that began here.
    """

    info: CheckpointInfo
    lane: int
    head: bool = False
    by: str = ""
    parent_n: int | None = None
    forks: tuple[str, ...] = ()

    @property
    def current(self) -> bool:
        """Say whether the run's present state grew out of it."""
        return self.lane == 0


@dataclass(frozen=True, kw_only=True)
class Rail:
    """Part of the tree, newest first. ``before`` is the next page's, 0 at the end."""

    rows: tuple[CheckpointRow, ...]
    total: int
    lanes: int
    before: int = 0


def events(viewer: Viewer, run_id: str, *, after: int = 0, limit: int = 500) -> list[Event]:
    """Return events with ``seq > after`` in order, without values for those who may not inspect (two queries)."""
    workflow = workflow_of(viewer, run_id)
    rows = models.Event.objects.filter(run_id=run_id, seq__gt=after).order_by("seq")[:limit]
    return [event_of(row, inspect=viewer.may("inspect", workflow)) for row in rows]


def last_events(viewer: Viewer, run_id: str, *, before: int = 0, limit: int = 200) -> list[Event]:
    """Return the newest events, or those with ``seq < before``, oldest of them first (two queries)."""
    workflow = workflow_of(viewer, run_id)
    rows = models.Event.objects.filter(run_id=run_id)
    rows = rows.filter(seq__lt=before) if before else rows
    inspect = viewer.may("inspect", workflow)
    return [event_of(row, inspect=inspect) for row in reversed(rows.order_by("-seq")[:limit])]


def checkpoints(viewer: Viewer, run_id: str, *, before: int = 0, limit: int = 50) -> Rail:
    """Return part of the tree, those with ``n < before``; four queries, five where people were at work, no content."""
    workflow_of(viewer, run_id)
    rows = models.Checkpoint.objects.filter(run_id=run_id).defer("body")
    rows = rows.filter(n__lt=before) if before else rows
    found = list(rows.order_by("-n")[: limit + 1])
    # The tree is read after its part: the run may go on in between, and every row must have its lane.
    nodes = nodes_of(run_id)
    lanes = lanes_of(nodes)
    shown = _rows(viewer, run_id, nodes, lanes, found[:limit])
    more = shown[-1].info.n if len(found) > limit else 0
    return Rail(rows=shown, total=len(nodes), lanes=max(lanes.values(), default=0) + 1, before=more)


def _rows(
    viewer: Viewer, run_id: str, nodes: list[Node], lanes: dict[str, int], found: list[models.Checkpoint]
) -> tuple[CheckpointRow, ...]:
    head = nodes[-1].id if nodes else ""
    numbers = {node.id: node.n for node in nodes}
    people, forks = _people(run_id, found), _forks(viewer, run_id, [row.id for row in found])
    return tuple(
        CheckpointRow(
            info=info_of(row),
            lane=lanes[row.id],
            head=row.id == head,
            by=people.get(row.seq, ""),
            parent_n=numbers.get(row.parent or "") if numbers.get(row.parent or "") != row.n - 1 else None,
            forks=tuple(forks.get(row.id, ())),
        )
        for row in found
    )


def _people(run_id: str, found: list[models.Checkpoint]) -> dict[int, str]:
    """Return seq -> who did it, of checkpoints that people made (one query, none where they made none)."""
    seqs = [row.seq for row in found if row.reason in COPIES]
    if not seqs:
        return {}
    rows = models.Event.objects.filter(run_id=run_id, seq__in=seqs).values_list("seq", KT("data__by"))
    return {seq: by or "" for seq, by in rows}


def _forks(viewer: Viewer, run_id: str, ids: list[str]) -> dict[str, list[str]]:
    """Return checkpoint -> runs that were forked from it (one query)."""
    family = models.Run.objects.filter(pk=run_id).values("family")
    rows = models.Run.objects.filter(viewer.scope("see"), family__in=family, forked_from__in=ids).order_by("created")
    forks: dict[str, list[str]] = {}
    for fork, origin in rows.values_list("id", "forked_from"):
        forks.setdefault(str(origin), []).append(fork)
    return forks


def lanes_of(nodes: list[Node]) -> dict[str, int]:
    """Give every checkpoint a lane: 0 along the line to the newest, one number per abandoned branch."""
    current = {node.id for node in path_to(nodes)}
    lanes: dict[str, int] = {}
    continued: set[str] = set()
    used = 0
    for node in nodes:
        parent = node.parent or ""
        if node.id in current:
            lanes[node.id] = 0
        elif lanes.get(parent, 0) and parent not in continued:
            continued.add(parent)
            lanes[node.id] = lanes[parent]
        else:
            used += 1
            lanes[node.id] = used
    return lanes


def workflow_of(viewer: Viewer, run_id: str) -> str:
    """Return the run's workflow, found through the viewer, or raise ``NotFound`` (one query)."""
    rows = models.Run.objects.filter(viewer.scope("see"), pk=run_id)
    workflow = rows.values_list("workflow", flat=True).first()
    if workflow is None:
        raise NotFound("There is no such run, or it is not yours to see")
    return workflow


def plain(data: dict[str, Json]) -> dict[str, Json]:
    """Return an event's data without values."""
    return {name: value for name, value in data.items() if name in PLAIN}


def traceless(data: dict[str, Json]) -> dict[str, Json]:
    """Return an event's data without the traceback of its error."""
    error = data.get("error")
    if not isinstance(error, dict) or "traceback" not in error:
        return data
    return {**data, "error": {name: value for name, value in error.items() if name != "traceback"}}


def event_of(row: models.Event, *, inspect: bool, operate: bool = False) -> Event:
    """Return a row as a record: values but secrets for those who may inspect, tracebacks for those who operate."""
    data = masked_data(row.run_id, row.data) if inspect or operate else plain(row.data)
    data = data if operate else traceless(data)
    return Event(run=RunId(row.run_id), seq=row.seq, kind=row.kind, step=row.step, data=data, at=row.at)
