"""The events of all runs of a workflow in one order, and cursors into it.

The order is that of the events' ids, served up to the high-water mark. It is the same for every reader; a run's events
are in the order of their ``seq``; and an event of a transaction that began after another's commit follows it. What a
cursor has passed never changes: nothing is committed before it any more.
"""

from __future__ import annotations

import base64
import struct
import time
from dataclasses import dataclass
from hashlib import blake2s

from django.db.models import Min, OuterRef, QuerySet, Subquery

from checkpoints.database.high_water_mark import last_id, settled_id
from checkpoints.models import Event, Run, WorkflowVersion
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid, NotFound
from wfdash.queries.history.events import event_of
from wfdash.records.runs import WorkflowEvent, WorkflowEvents

NOW = "now"
"""The cursor behind everything that is settled."""
SPAN = 20_000
"""Ids of one look: of a workflow with few events among many others a page may be empty, and still be no end."""
PATIENCE = 0.25
"""Seconds after which a page that has found nothing ends as well."""
PLACE = struct.Struct(">Q6s")


@dataclass(frozen=True, kw_only=True)
class EventSpan:
    """Part of a workflow's events. ``reached``: the id up to which these are all of them."""

    rows: tuple[Event, ...]
    reached: int


def read_workflow_events(viewer: Viewer, name: str, *, after: str = "", limit: int = 500) -> WorkflowEvents:
    """Return events of a workflow's runs behind a cursor, in order.

    Three queries, and two for each ``SPAN`` of ids. ``NotFound``; ``Invalid`` for a cursor of something else.
    """
    place, last = workflow_place(viewer, name, after), settled_id()
    inspect, rows = viewer.may("inspect", name), tuple[Event, ...]()
    end = time.monotonic() + PATIENCE
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
        raise Invalid([{"loc": [field], "msg": why}])
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

    Of at most ``SPAN`` ids; at most ``limit`` events, and no more once their data has ``chars`` characters.
    """
    first = Event.objects.filter(pk__gt=after, pk__lte=last).aggregate(first=Min("pk"))["first"]
    if first is None:
        return EventSpan(rows=(), reached=last)
    upto = min(last, first + SPAN - 1)
    rows, room = list[Event](), chars
    for row in _of(name).filter(pk__gte=first, pk__lte=upto).order_by("pk")[:limit].iterator(chunk_size=100):
        rows.append(row)
        if room is not None and (room := room - len(str(row.data))) < 0:
            break
    whole = len(rows) < limit and (room is None or room >= 0)
    return EventSpan(rows=tuple(rows), reached=upto if whole else rows[-1].pk)


def _of(name: str) -> QuerySet[Event]:
    """Return a workflow's events. Of each row the run is looked up, whatever a planner thinks of the workflow: it might
    read all of its runs for a few ids.
    """
    workflow = Run.objects.filter(pk=OuterRef("run_id")).values("workflow")[:1]
    return Event.objects.alias(workflow=Subquery(workflow)).filter(workflow=name)


def record_of(row: Event, name: str, *, inspect: bool) -> WorkflowEvent:
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
