"""What people did in a run, and how they changed its course: from its own events."""

from __future__ import annotations

from typing import Any

from checkpoints.events import Trait, kinds_with
from checkpoints.models import Event, Reply
from wfdash.queries.history.events import plain
from wfdash.queries.unreadable import data_of, text
from wfdash.records.runs import EventRecord

COURSE = kinds_with(Trait.COURSE)
"""Kinds of events that are listed at the top of a run's page."""
BY_PEOPLE = kinds_with(Trait.PERSON)


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
    rows: Any = Event.objects.filter(run_id=run_id, kind__in=kinds).order_by("-seq")[:limit]
    found = (
        Intervention.trusted(run=run_id, seq=row.seq, kind=row.kind, step=row.step, data=plain(data_of(row)), at=row.at)
        for row in rows
    )
    return tuple(found)[::-1]
