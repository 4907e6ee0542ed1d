"""A run's events and log, filtered by step, level and text, in pages without gaps or duplicates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

from django.db.models import Q, QuerySet

from checkpoints import models
from checkpoints.events import EventKind, Trait, kinds_with
from checkpoints.models import Reply
from checkpoints.records import Event, frozen
from wfdash.access.viewer import Viewer
from wfdash.queries.history import event_of, plain, workflow_of
from wfdash.queries.unreadable import data_of, text
from wfdash.records.base import UNREADABLE
from wfdash.records.runs import EventRecord, LogLevel, LogLineRecord

# What people did in a run, and how they changed its course: from its own events.

COURSE = kinds_with(Trait.COURSE)
"""Kinds of events that are listed at the top of a run's page."""
BY_PEOPLE = kinds_with(Trait.PERSON)
Match = Callable[[models.Event, bool], bool]
"""Says whether a row is wanted; its second argument, whether the values of the row may be read."""


class Intervention(EventRecord):
    """An event of a person: metadata only."""

    run: str

    @property
    def by(self) -> str:
        """Return who did it; empty for no person."""
        return str(self.data.get("by") or "")


def course_changes(run_id: str, limit: int = 100) -> tuple[Intervention, ...]:
    """Return what changed a run's course, oldest first (one query). The caller found the run through its viewer."""
    return _interventions(run_id, COURSE, limit)


def read_interventions(run_id: str, limit: int = 100) -> tuple[Intervention, ...]:
    """Return what people did in a run recently, oldest first (one query). The caller found it through its viewer."""
    return tuple(found for found in _interventions(run_id, BY_PEOPLE, limit) if found.by)


def reasons(run_id: str, limit: int = 200) -> dict[str, str]:
    """Return request id -> the reason people gave for their answer (one query). For people who may inspect.

    The caller found the run through its viewer.
    """
    rows = Reply.objects.filter(request__run_id=run_id, undone__isnull=True).order_by("-at")[:limit]
    given: dict[str, list[str]] = {}
    for row in rows:
        if reason := text(row, "reason"):
            given.setdefault(row.request_id, []).append(reason)
    return {request: "; ".join(reversed(words)) for request, words in given.items()}


def _interventions(run_id: str, kinds: frozenset[str], limit: int) -> tuple[Intervention, ...]:
    rows: Any = models.Event.objects.filter(run_id=run_id, kind__in=kinds).order_by("-seq")[:limit]
    found = (
        Intervention.trusted(run=run_id, seq=row.seq, kind=row.kind, step=row.step, data=plain(data_of(row)), at=row.at)
        for row in rows
    )
    return tuple(found)[::-1]


@frozen
class LogFilter:
    """A filter of log records: each part that is not empty narrows it.

    ``activation``: one execution of a step. ``level``: of this level and above. ``text``: contained in the record's
    text or the name of its logger, whatever the case; of the text only for those who may see it.
    """

    step: str = ""
    activation: str = ""
    level: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.step or self.activation or self.level or self.text)


@frozen
class LogPage:
    """Records, oldest first. ``older``: the next page's ``before``, ``newer``: its ``after``; 0 where there is none.

    ``partly``: more may match beyond what was looked at.
    """

    records: tuple[LogLineRecord, ...]
    older: int = 0
    newer: int = 0
    partly: bool = False


def find_logs(
    viewer: Viewer, run_id: str, wanted: LogFilter, *, before: int = 0, after: int | None = None, limit: int = 300
) -> LogPage:
    """Return the newest records that match, those with ``seq < before``, or the first with ``seq > after``.

    Two queries, more where few of many match.
    """
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    found = _page(_rows(run_id, wanted), _log_matcher(wanted), inspect, before=before, after=after, limit=limit)
    records = tuple(map(_record, found.events))
    return LogPage(records=records, older=found.older, newer=found.newer, partly=found.partly)


def all_logs(viewer: Viewer, run_id: str, wanted: LogFilter) -> Iterator[LogLineRecord]:
    """Yield every record that matches, oldest first; looks at ``MOST_EXPORTED`` at most, read in batches."""
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    yield from map(_record, _matching(_rows(run_id, wanted), _log_matcher(wanted), inspect))


def _rows(run_id: str, wanted: LogFilter) -> QuerySet[models.Event]:
    """Return the rows, filtered as far as the database can."""
    rows = _of_step(models.Event.objects.filter(run_id=run_id, kind=EventKind.LOG), wanted.step)
    return rows.filter(data__activation=wanted.activation) if wanted.activation else rows


def _log_matcher(wanted: LogFilter) -> Match:
    """Return the check of each row: its content may be encrypted, so no database can filter by it."""
    loud = _from_level(wanted.level)
    text = wanted.text.lower()

    def match(row: models.Event, inspect: bool) -> bool:
        if loud and str(data_of(row).get("level")) not in loud:
            return False
        if not text:
            return True
        record = _record(event_of(row, inspect=inspect))
        return text in f"{record.logger}\n{record.text or ''}".lower()

    return match


def _record(event: Event) -> LogLineRecord:
    text = event.data.get("message", event.data.get(UNREADABLE))
    return LogLineRecord.trusted(
        seq=event.seq,
        at=event.at,
        step=event.step or "",
        level=str(event.data.get("level") or ""),
        logger=str(event.data.get("logger") or ""),
        text=None if text is None else str(text),
    )


LEVELS: tuple[str, ...] = get_args(LogLevel)
SCAN_BATCH = 1000
MAX_SCANNED = 5_000
"""Events scanned for one page; a filter that finds less offers a link to continue."""
MOST_EXPORTED = 200_000


@frozen
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


@frozen
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
    return _page(rows, _matcher(wanted), inspect, before=before, after=after, limit=limit)


def all_events(viewer: Viewer, run_id: str, wanted: EventFilter, *, after: int = 0) -> Iterator[Event]:
    """Yield every event that matches, oldest first, at most ``MOST_EXPORTED``; read in batches."""
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    rows = _filtered(models.Event.objects.filter(run_id=run_id), wanted)
    yield from _matching(rows, _matcher(wanted), inspect, after=after)


def _filtered(rows: QuerySet[models.Event], wanted: EventFilter) -> QuerySet[models.Event]:
    """Return the rows, filtered as far as the database can."""
    if wanted.kind:
        rows = rows.filter(Q(kind=wanted.kind) | Q(kind__startswith=f"{wanted.kind}."))
    rows = _of_step(rows, wanted.step)
    return rows.filter(kind=EventKind.LOG) if wanted.level else rows


def _of_step(rows: QuerySet[models.Event], step: str) -> QuerySet[models.Event]:
    """Return the rows of a step and of the steps within it; all where no step is wanted."""
    return rows.filter(Q(step=step) | Q(step__startswith=f"{step}/")) if step else rows


def _from_level(level: str) -> tuple[str, ...]:
    """Return this level and those above it; none for a word that is no level."""
    return LEVELS[LEVELS.index(level) :] if level in LEVELS else ()


def _matcher(wanted: EventFilter) -> Match:
    """Return the check of each event: content may be encrypted, so no database can filter by it."""
    loud = _from_level(wanted.level)
    text = wanted.text.lower()

    def match(row: models.Event, inspect: bool) -> bool:
        if wanted.level and str(data_of(row).get("level")) not in loud:
            return False
        if not text or text in f"{row.kind} {row.step or ''}".lower():
            return True
        data = event_of(row, inspect=inspect).data
        return text in json.dumps(data, ensure_ascii=False).lower()

    return match


def _page(
    rows: QuerySet[models.Event], match: Match, inspect: bool, *, before: int, after: int | None, limit: int
) -> EventPage:
    """Return the newest events that match, those with ``seq < before``, or the first with ``seq > after``."""
    if after is not None:
        found, more, last = _scan(rows.filter(seq__gt=after).order_by("seq"), match, inspect, limit)
        newer = found[-1].seq if more else last
        return EventPage(events=tuple(found), older=after + 1 if after > 0 else 0, newer=newer, partly=bool(last))
    rows = rows.filter(seq__lt=before) if before else rows
    found, more, last = _scan(rows.order_by("-seq"), match, inspect, limit)
    older = found[-1].seq if more else last
    return EventPage(events=tuple(found[::-1]), older=older, newer=max(before - 1, 0), partly=bool(last))


def _matching(rows: QuerySet[models.Event], match: Match, inspect: bool, *, after: int = 0) -> Iterator[Event]:
    """Yield every event that matches, oldest first; looks at ``MOST_EXPORTED`` at most, read in batches."""
    for _ in range(MOST_EXPORTED // SCAN_BATCH):
        piece = list(rows.filter(seq__gt=after).order_by("seq")[:SCAN_BATCH])
        yield from (event_of(row, inspect=inspect) for row in piece if match(row, inspect))
        if len(piece) < SCAN_BATCH:
            return
        after = piece[-1].seq


def _scan(rows: QuerySet[models.Event], match: Match, inspect: bool, limit: int) -> tuple[list[Event], bool, int]:
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
