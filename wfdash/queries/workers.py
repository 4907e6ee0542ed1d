"""Which workers live, and what they serve: for monitoring, and to say why a run that is due is not taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from checkpoints.database.clock import database_now
from checkpoints.models import WorkerBeat

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A worker without a heartbeat for so long counts as gone; heartbeats come every few seconds."""


@dataclass(frozen=True, kw_only=True)
class WorkerRow:
    """A worker process, as it reports itself."""

    name: str
    started: datetime
    seen: datetime
    runs: int
    late: float


def workers(now: datetime) -> list[WorkerRow]:
    """Return the live workers, the most recent heartbeat first (one query). ``now``: the database's time."""
    return [
        WorkerRow(name=row.pk, started=row.started, seen=row.seen, runs=row.runs, late=row.late)
        for row in _alive(now).defer("serves").order_by("-seen")[:100]
    ]


def served(*, but: str = "") -> list[Mapping[str, str] | None]:
    """Return workflow -> version of what each live worker claims, None where it does not say; without the worker
    ``but`` (two queries).
    """
    return list(_alive(database_now()).exclude(pk=but).values_list("serves", flat=True))


def served_workflows() -> frozenset[str] | None:
    """Return the workflows that some live worker claims; None: any, as one does not say which (two queries)."""
    found = served()
    known = [one for one in found if one is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def unserved(workflows: Iterable[str]) -> frozenset[str]:
    """Return those of these workflows that no live worker claims (two queries, if there are any workflows)."""
    asked = frozenset(workflows)
    known = served_workflows() if asked else None
    return asked - known if known is not None else frozenset()


def _alive(now: datetime) -> QuerySet[WorkerBeat]:
    return WorkerBeat.objects.filter(seen__gt=now - HEARTBEAT_TIMEOUT)
