"""A run's events filtered by kind, step, level and text, in pages without gaps or duplicates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from checkpoints import models
from checkpoints.events import EventKind
from checkpoints.records import Event
from wfdash.access.viewer import Viewer
from wfdash.queries.history.events import event_of, workflow_of
from wfdash.queries.unreadable import data_of

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
SCAN_BATCH = 1000
MAX_SCANNED = 5_000
"""Events scanned for one page; a filter that finds less offers a link to continue."""
MOST_EXPORTED = 200_000


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """A filter of events: each part that is not empty narrows it. ``kind``: ``step.failed``, or ``step`` for all of
    them.

    ``level``: log records of this level and above. ``text``: contained in kind, step or values the person may see.
    """

    kind: str = ""
    step: str = ""
    level: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.kind or self.step or self.level or self.text)


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """Events, oldest first. ``older``: the next page's ``before``, ``newer``: its ``after``; 0 where there is none.

    ``partly``: more may match beyond the scanned events.
    """

    events: tuple[Event, ...]
    older: int = 0
    newer: int = 0
    partly: bool = False


def find_events(
    viewer: Viewer,
    run_id: str,
    wanted: EventFilter | None = None,
    *,
    before: int = 0,
    after: int | None = None,
    limit: int = 200,
    top: int = 0,
) -> EventPage:
    """Return the newest events that match, those with ``seq < before``, or the first with ``seq > after``.

    ``top``: the newest event to read, 0 for all. Three queries, more where few of many match. Values only for people
    who may inspect them; the others cannot search in them either.
    """
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    wanted = wanted or EventFilter()
    rows = _filtered(models.Event.objects.filter(run_id=run_id), wanted)
    rows = rows.filter(seq__lte=top) if top else rows
    if after is not None:
        found, more, last = scan(rows.filter(seq__gt=after).order_by("seq"), _matcher(wanted), inspect, limit)
        newer = found[-1].seq if more else last
        return EventPage(events=tuple(found), older=after + 1 if after > 0 else 0, newer=newer, partly=bool(last))
    rows = rows.filter(seq__lt=before) if before else rows
    found, more, last = scan(rows.order_by("-seq"), _matcher(wanted), inspect, limit)
    older = found[-1].seq if more else last
    return EventPage(events=tuple(found[::-1]), older=older, newer=max(before - 1, 0), partly=bool(last))


def all_events(viewer: Viewer, run_id: str, wanted: EventFilter, *, after: int = 0) -> Iterator[Event]:
    """Yield every event that matches, oldest first, at most ``MOST_EXPORTED``; read in batches."""
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    rows, match = _filtered(models.Event.objects.filter(run_id=run_id), wanted), _matcher(wanted)
    for _ in range(MOST_EXPORTED // SCAN_BATCH):
        piece = list(rows.filter(seq__gt=after).order_by("seq")[:SCAN_BATCH])
        yield from (event_of(row, inspect=inspect) for row in piece if match(row, inspect))
        if len(piece) < SCAN_BATCH:
            return
        after = piece[-1].seq


def _filtered(rows: QuerySet[models.Event], wanted: EventFilter) -> QuerySet[models.Event]:
    """Return the rows, filtered as far as the database can."""
    if wanted.kind:
        rows = rows.filter(Q(kind=wanted.kind) | Q(kind__startswith=f"{wanted.kind}."))
    if wanted.step:
        rows = rows.filter(Q(step=wanted.step) | Q(step__startswith=f"{wanted.step}/"))
    return rows.filter(kind=EventKind.LOG) if wanted.level else rows


def _matcher(wanted: EventFilter) -> Callable[[models.Event, bool], bool]:
    """Return the check of each event: content may be encrypted, so no database can filter by it."""
    loud = LEVELS[LEVELS.index(wanted.level) :] if wanted.level in LEVELS else ()
    text = wanted.text.lower()

    def match(row: models.Event, inspect: bool) -> bool:
        if wanted.level and str(data_of(row).get("level")) not in loud:
            return False
        if not text or text in f"{row.kind} {row.step or ''}".lower():
            return True
        data = event_of(row, inspect=inspect).data
        return text in json.dumps(data, ensure_ascii=False).lower()

    return match


def scan(
    rows: QuerySet[models.Event], match: Callable[[models.Event, bool], bool], inspect: bool, limit: int
) -> tuple[list[Event], bool, int]:
    """Return the first that match, whether there are more, and the seq of the last scanned if rows were left."""
    found: list[Event] = []
    looked, size, last = 0, limit + 1, 0
    while looked < MAX_SCANNED:
        piece = list(rows[looked : looked + size])
        for row in piece:
            if match(row, inspect):
                found.append(event_of(row, inspect=inspect))
            if len(found) > limit:
                return found[:limit], True, 0
        if len(piece) < size:
            return found, False, 0
        looked, size, last = looked + len(piece), SCAN_BATCH, piece[-1].seq
    return found, False, last
