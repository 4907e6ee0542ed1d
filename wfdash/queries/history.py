"""A run's history: its events, and those of all runs of a workflow; its checkpoints as a tree with branches.

A checkpoint's events are those between the checkpoint before it *in time* and itself. Walking parents from a head
gives the ranges that count: abandoned branches are left out, what happened before a fork is included.
"""

from __future__ import annotations

import base64
import struct
import time
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2s

from django.db.models import Min, OuterRef, Q, QuerySet, Subquery

from checkpoints import models
from checkpoints.database.high_water_mark import last_id, settled_id
from checkpoints.database.runs import admitted, info_of
from checkpoints.events import TRACES, VISIBLE
from checkpoints.ids import RunId
from checkpoints.models import Checkpoint, Run, WorkflowVersion
from checkpoints.models.fields import KT
from checkpoints.records import ENDED, CheckpointFilter, CheckpointInfo, Event, JsonObject, Reason, frozen
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import Invalid, NotFound
from wfdash.engines import catalog
from wfdash.queries.unreadable import data_of, masked_data
from wfdash.records.runs import EventRecord, RunEvents, WorkflowEvent, WorkflowEvents

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


@frozen
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
        # The first one's parent may have been deleted since.
        if node.reason not in COPIES and (earlier is None or node.parent == earlier.id):
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


# The events of all runs of a workflow in one order, and cursors into it.

NOW = "now"
"""The cursor behind everything that is settled."""
SCANNED_IDS = 20_000
"""Ids of one look: of a workflow with few events among many others a page may be empty, and still be no end."""
SCAN_SECONDS = 0.25
"""Seconds after which a page that has found nothing ends as well."""
PLACE = struct.Struct(">Q6s")


@frozen
class EventSpan:
    """Part of a workflow's events. ``reached``: the id up to which these are all of them."""

    rows: tuple[models.Event, ...]
    reached: int


def read_workflow_events(viewer: Viewer, name: str, *, after: str = "", limit: int = 500) -> WorkflowEvents:
    """Return events of a workflow's runs behind a cursor, in order.

    Three queries, and two for each ``SCANNED_IDS`` of ids. ``NotFound``; ``Invalid`` for a cursor of something else.
    """
    place, last = workflow_place(viewer, name, after), settled_id()
    inspect, rows = viewer.may("inspect", name), tuple[models.Event, ...]()
    end = time.monotonic() + SCAN_SECONDS
    while place < last:
        span = read_span(name, after=place, last=last, limit=limit)
        rows, place = span.rows, span.reached
        if rows or time.monotonic() >= end:
            break
    items = [record_of(row, name, inspect=inspect) for row in rows]
    return WorkflowEvents(items=items, next=cursor_at(name, place), more=place < last)


def workflow_place(viewer: Viewer, name: str, cursor: str, *, field: str = "after") -> int:
    """Return the id that a cursor of this workflow names (two queries). ``NotFound``; ``Invalid`` names the field."""
    if not viewer.may("see", name) or not _exists(name):
        raise NotFound("Workflow not found, or you do not have access")
    if cursor == NOW:
        return settled_id()
    place, why = read_cursor(name, cursor)
    if not why and place > last_id():
        why = "No event has this number yet: was the database restored from a backup? Begin without a cursor"
    if why:
        raise Invalid.at(field, why)
    return place


def _exists(name: str) -> bool:
    if catalog.find(name) is not None:
        return True
    return WorkflowVersion.objects.filter(workflow=name).exists() or Run.objects.filter(workflow=name).exists()


def cursor_at(name: str, place: int) -> str:
    """Return the cursor behind an id, as text that says nothing to anyone else."""
    return base64.urlsafe_b64encode(PLACE.pack(place, _mark(name))).decode().rstrip("=")


def read_cursor(name: str, cursor: str) -> tuple[int, str]:
    """Return the id that a cursor names, 0 for an empty one, and what is wrong with it."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place, mark = PLACE.unpack(text) if cursor else (0, _mark(name))
    except (ValueError, struct.error):
        return 0, "Not a cursor of a workflow's events: give the next of a page, the cursor of an event, or now"
    return place, "" if mark == _mark(name) else "A cursor of another workflow: each has cursors of its own"


def _mark(name: str) -> bytes:
    return blake2s(name.encode(), digest_size=6).digest()


def read_span(name: str, *, after: int, last: int, limit: int, chars: int | None = None) -> EventSpan:
    """Return the next events of a workflow behind an id and up to ``last``, which must be settled (two queries).

    Of at most ``SCANNED_IDS`` ids; at most ``limit`` events, and no more once their data has ``chars`` characters.
    """
    first = models.Event.objects.filter(pk__gt=after, pk__lte=last).aggregate(first=Min("pk"))["first"]
    if first is None:
        return EventSpan(rows=(), reached=last)
    upto = min(last, first + SCANNED_IDS - 1)
    rows, room = list[models.Event](), chars
    for row in _of(name).filter(pk__gte=first, pk__lte=upto).order_by("pk")[:limit].iterator(chunk_size=100):
        rows.append(row)
        if room is not None and (room := room - len(str(row.data))) < 0:
            break
    whole = len(rows) < limit and (room is None or room >= 0)
    return EventSpan(rows=tuple(rows), reached=upto if whole else rows[-1].pk)


def _of(name: str) -> QuerySet[models.Event]:
    """Return a workflow's events. Of each row the run is looked up, whatever a planner thinks of the workflow: it might
    read all of its runs for a few ids.
    """
    workflow = Run.objects.filter(pk=OuterRef("run_id")).values("workflow")[:1]
    return models.Event.objects.alias(workflow=Subquery(workflow)).filter(workflow=name)


def record_of(row: models.Event, name: str, *, inspect: bool) -> WorkflowEvent:
    """Return the record of a row: without values for those who may not inspect them."""
    event = event_of(row, inspect=inspect)
    return WorkflowEvent(
        seq=event.seq,
        kind=event.kind,
        step=event.step,
        data=event.data,
        at=event.at,
        run=row.run_id,
        cursor=cursor_at(name, row.pk),
    )


@frozen
class CheckpointRow:
    """A checkpoint in the rail. ``lane`` 0 is the current branch, 1, 2 ... are abandoned ones.

    ``by``: who created it, by restoring, forking or editing. ``parent_n``: its parent, where that is not the previous
    one. ``forks``: runs that started here. ``answered``: a question that was open at its parent is not any more.
    """

    info: CheckpointInfo
    lane: int
    head: bool = False
    by: str = ""
    parent_n: int | None = None
    forks: tuple[str, ...] = ()
    answered: bool = False

    @property
    def current(self) -> bool:
        """Return whether it is an ancestor of the run's current state."""
        return self.lane == 0


@frozen
class Rail:
    """A page of the tree, newest first. ``before``: the next page's cursor, 0 at the end; ``total``: all of them."""

    rows: tuple[CheckpointRow, ...]
    total: int
    lanes: int
    before: int = 0


def events_after(viewer: Viewer, run_id: str, *, after: int = 0, limit: int = 500) -> RunEvents:
    """Return events with ``seq > after``, and whether the run ended with them (two queries).

    ``Invalid`` for a cursor beyond the run's last event: what follows it would be lost without a word.
    """
    workflow, seq, phase = _head_of(viewer, run_id, after)
    rows = models.Event.objects.filter(run_id=run_id, seq__gt=after).order_by("seq")[:limit] if after < seq else ()
    inspect = viewer.may("inspect", workflow)
    items = [EventRecord.model_validate(event_of(row, inspect=inspect)) for row in rows]
    following = items[-1].seq if items else after
    return RunEvents(items=items, next=following, ended=phase in ENDED and following == seq)


def check_cursor(viewer: Viewer, run_id: str, after: int) -> None:
    """Return if the events after this cursor can be followed (one query). ``NotFound``, ``Invalid``."""
    _head_of(viewer, run_id, after)


def _head_of(viewer: Viewer, run_id: str, after: int) -> tuple[str, int, str]:
    """Return a run's workflow, last seq and phase. Read before the events, so that none is taken for the last."""
    rows = models.Run.objects.filter(viewer.scope("see"), pk=run_id)
    head = rows.values_list("workflow", "seq", "phase").first()
    if head is None:
        raise NotFound("Run not found, or you do not have access")
    if after > head[1]:
        raise Invalid.at("after", f"The run has {head[1]} events only")
    return head


def last_events(viewer: Viewer, run_id: str, *, before: int = 0, limit: int = 200) -> list[Event]:
    """Return the newest events, or those with ``seq < before``, oldest of them first (two queries)."""
    workflow = workflow_of(viewer, run_id)
    rows = models.Event.objects.filter(run_id=run_id)
    rows = rows.filter(seq__lt=before) if before else rows
    inspect = viewer.may("inspect", workflow)
    return [event_of(row, inspect=inspect) for row in reversed(rows.order_by("-seq")[:limit])]


def read_checkpoints(
    viewer: Viewer, run_id: str, *, before: int = 0, limit: int = 50, where: CheckpointFilter | None = None
) -> Rail:
    """Return one page of the tree: checkpoints with ``n < before`` that match ``where``, without content.

    Four queries, five where people made some, one more with ``where``. Facts are empty without the right to inspect.
    """
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    wanted = admitted(where or CheckpointFilter())
    chosen = models.Checkpoint.objects.filter(wanted, run_id=run_id).defer("body")
    rows = chosen.filter(n__lt=before) if before else chosen
    found = list(rows.order_by("-n")[: limit + 1])
    # The tree is read after the page: the run may continue in between, and every row must have a lane.
    nodes = nodes_of(run_id)
    lanes = lanes_of(nodes)
    shown = _rail_rows(viewer, run_id, nodes, lanes, found[:limit], inspect=inspect)
    more = shown[-1].info.n if len(found) > limit else 0
    total = chosen.count() if wanted else len(nodes)
    return Rail(rows=shown, total=total, lanes=max(lanes.values(), default=0) + 1, before=more)


def _rail_rows(
    viewer: Viewer,
    run_id: str,
    nodes: list[CheckpointNode],
    lanes: dict[str, int],
    found: list[models.Checkpoint],
    *,
    inspect: bool,
) -> tuple[CheckpointRow, ...]:
    head = nodes[-1].id if nodes else ""
    numbers = {node.id: node.n for node in nodes}
    waiting = {row.id: row.waiting for row in found}
    people, forks = _people(run_id, found), _forks(viewer, run_id, [row.id for row in found])
    return tuple(
        CheckpointRow(
            info=shown_info(row, inspect=inspect),
            lane=lanes[row.id],
            head=row.id == head,
            by=people.get(row.seq, ""),
            parent_n=numbers.get(row.parent or "") if numbers.get(row.parent or "") != row.n - 1 else None,
            forks=tuple(forks.get(row.id, ())),
            answered=row.reason in {Reason.STEP, Reason.END} and row.waiting < waiting.get(row.parent or "", 0),
        )
        for row in found
    )


def shown_info(row: models.Checkpoint, *, inspect: bool) -> CheckpointInfo:
    """Return a checkpoint without its content; for people who may not inspect values, without its owner's metadata."""
    found = info_of(row)
    return found if inspect else found.model_copy(update={"facts": {}})


def _people(run_id: str, found: list[models.Checkpoint]) -> dict[int, str]:
    """Return seq -> user name, for checkpoints that people made (one query, none if there are none)."""
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


def lanes_of(nodes: list[CheckpointNode]) -> dict[str, int]:
    """Return checkpoint id -> lane: 0 for the current branch, one number per abandoned branch."""
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
    """Return the name of the run's workflow, found through the viewer (one query). ``NotFound``."""
    rows = models.Run.objects.filter(viewer.scope("see"), pk=run_id)
    workflow = rows.values_list("workflow", flat=True).first()
    if workflow is None:
        raise NotFound("Run not found, or you do not have access")
    return workflow


def created_at(run_id: str) -> datetime:
    """Return when a run was created, to count the times of its events from (one query per run and process)."""
    return _constants(run_id)[0]


def workflow_by_run(run_id: str) -> str:
    """Return the workflow of a run, for the titles of its steps (one query per run and process)."""
    return _constants(run_id)[1]


@lru_cache(maxsize=1000)
def _constants(run_id: str) -> tuple[datetime, str]:
    """Return what never changes of a run."""
    return models.Run.objects.values_list("created", "workflow").get(pk=run_id)


def plain(data: JsonObject) -> JsonObject:
    """Return an event's data without values."""
    return {name: value for name, value in data.items() if name in VISIBLE}


def traceless(data: JsonObject) -> JsonObject:
    """Return an event's data without the traceback of its error, or the stack of a step that blocks."""
    data = {name: value for name, value in data.items() if name not in TRACES}
    error = data.get("error")
    if not isinstance(error, dict) or "traceback" not in error:
        return data
    return {**data, "error": {name: value for name, value in error.items() if name != "traceback"}}


def event_of(row: models.Event, *, inspect: bool, operate: bool = False) -> Event:
    """Return the record of a row: values without secrets for those who may inspect, tracebacks for operators."""
    found = data_of(row)
    data = masked_data(row.run_id, found) if inspect or operate else plain(found)
    data = data if operate else traceless(data)
    return Event(run=RunId(row.run_id), seq=row.seq, kind=row.kind, step=row.step, data=data, at=row.at)
