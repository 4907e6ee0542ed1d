"""What the steps of a run logged: by step, execution, level and text, in pages without gaps or duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from checkpoints import models
from checkpoints.events import EventKind
from checkpoints.records import Event
from wfdash.access.viewer import Viewer
from wfdash.queries.history.events import event_of, workflow_of
from wfdash.queries.runs.events import LEVELS, MOST_EXPORTED, SCAN_BATCH, scan
from wfdash.queries.unreadable import data_of
from wfdash.records.base import UNREADABLE
from wfdash.records.run_parts import LogLineRecord


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
    rows, match = _rows(run_id, wanted), _matcher(wanted)
    if after is not None:
        found, more, last = scan(rows.filter(seq__gt=after).order_by("seq"), match, inspect, limit)
        newer = found[-1].seq if more else last
        return LogPage(records=_records(found), older=after + 1 if after > 0 else 0, newer=newer, partly=bool(last))
    rows = rows.filter(seq__lt=before) if before else rows
    found, more, last = scan(rows.order_by("-seq"), match, inspect, limit)
    older = found[-1].seq if more else last
    return LogPage(records=_records(found[::-1]), older=older, newer=max(before - 1, 0), partly=bool(last))


def all_logs(viewer: Viewer, run_id: str, wanted: LogFilter) -> Iterator[LogLineRecord]:
    """Yield every record that matches, oldest first; looks at ``MOST_EXPORTED`` at most, read in batches."""
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    rows, match, after = _rows(run_id, wanted), _matcher(wanted), 0
    for _ in range(MOST_EXPORTED // SCAN_BATCH):
        piece = list(rows.filter(seq__gt=after).order_by("seq")[:SCAN_BATCH])
        yield from _records([event_of(row, inspect=inspect) for row in piece if match(row, inspect)])
        if len(piece) < SCAN_BATCH:
            return
        after = piece[-1].seq


def _rows(run_id: str, wanted: LogFilter) -> QuerySet[models.Event]:
    """Return the rows, filtered as far as the database can."""
    rows = models.Event.objects.filter(run_id=run_id, kind=EventKind.LOG)
    if wanted.step:
        rows = rows.filter(Q(step=wanted.step) | Q(step__startswith=f"{wanted.step}/"))
    if wanted.activation:
        rows = rows.filter(data__activation=wanted.activation)
    return rows


def _matcher(wanted: LogFilter) -> Callable[[models.Event, bool], bool]:
    """Return the check of each row: its content may be encrypted, so no database can filter by it."""
    loud = LEVELS[LEVELS.index(wanted.level) :] if wanted.level in LEVELS else ()
    text = wanted.text.lower()

    def match(row: models.Event, inspect: bool) -> bool:
        if loud and str(data_of(row).get("level")) not in loud:
            return False
        if not text:
            return True
        record = _record(event_of(row, inspect=inspect))
        return text in f"{record.logger}\n{record.text or ''}".lower()

    return match


def _records(found: list[Event]) -> tuple[LogLineRecord, ...]:
    return tuple(_record(event) for event in found)


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
