"""What people did in a run, and how they changed its course: from its own events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.models import Event, Reply
from checkpoints.records import Json
from wfdash.queries.history import plain

COURSE = (
    *("run.restored", "run.forked", "run.edited", "run.overridden", "run.migrated"),
    *("run.paused", "run.cancelled", "run.ending", "run.failed"),
)
"""What is told at the top of a run's page."""
ALTERS = frozenset({"run.restored", "run.edited", "run.overridden"})
"""What is told there for ever."""
BY_PEOPLE = (
    *("run.queued", "run.cancelled", "run.ending", "run.paused", "run.resumed", "run.retried", "run.restored"),
    *("run.forked", "run.edited", "run.labelled", "run.overridden", "run.migrated"),
    *("request.answered", "request.voted", "request.undone", "request.assigned", "request.commented"),
    *("request.asked", "request.replied", "request.amended", "request.extended", "signal.sent"),
)


@dataclass(frozen=True, kw_only=True)
class Deed:
    """An event that tells of somebody: metadata only."""

    run: str
    seq: int
    kind: str
    step: str | None
    data: dict[str, Json]
    at: datetime

    @property
    def by(self) -> str:
        """Who did it; empty where nobody did."""
        return str(self.data.get("by") or "")


def course(run_id: str, limit: int = 100) -> tuple[Deed, ...]:
    """Return what changed a run's course, oldest first (one query). The run was found through its viewer before."""
    return _deeds(run_id, COURSE, limit)


def deeds(run_id: str, limit: int = 100) -> tuple[Deed, ...]:
    """Return what people did in a run lately, oldest first (one query). It was found through its viewer before."""
    return tuple(deed for deed in _deeds(run_id, BY_PEOPLE, limit) if deed.by)


def reasons(run_id: str, limit: int = 200) -> dict[str, str]:
    """Return request id -> why people answered as they did, in their words (one query). For those who may inspect.

    The run was found through its viewer before.
    """
    rows = Reply.objects.filter(request__run_id=run_id, undone__isnull=True).order_by("-at")[:limit]
    told: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            told.setdefault(row.request_id, []).append(row.reason)
    return {request: "; ".join(reversed(words)) for request, words in told.items()}


def _deeds(run_id: str, kinds: tuple[str, ...], limit: int) -> tuple[Deed, ...]:
    rows: Any = Event.objects.filter(run_id=run_id, kind__in=kinds).order_by("-seq")[:limit]
    found = (
        Deed(run=run_id, seq=row.seq, kind=row.kind, step=row.step, data=plain(row.data), at=row.at) for row in rows
    )
    return tuple(found)[::-1]
