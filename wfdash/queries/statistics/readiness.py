"""Whether a worker is alive, and whether everything that was due has happened.

For monitoring, not for a person: these reads return counts and ages, and nothing of any workflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce

from checkpoints.database.clock import database_now
from checkpoints.models import OPEN, HumanRequest, Reply, Run, Schedule, WorkerBeat
from checkpoints.records import Phase
from checkpoints.rules import TIMED

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A worker without a heartbeat for so long counts as gone; heartbeats come every few seconds."""
OVER = (Phase.CANCELLED, Phase.COMPLETED)


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


def is_unserved(workflow: str) -> bool:
    """Return whether workers live and none of them has this workflow (two queries)."""
    found = served()
    return bool(found) and all(one is not None and workflow not in one for one in found)


def _alive(now: datetime) -> QuerySet[WorkerBeat]:
    return WorkerBeat.objects.filter(seen__gt=now - HEARTBEAT_TIMEOUT)


def lateness(now: datetime) -> dict[str, float]:
    """Return what is overdue: ``deadlines``, ``answers``, ``naps``, ``schedules`` -> seconds of the oldest (4 queries).

    ``naps`` are sleeping runs. Each is one index look-up. ``now``: the database's time.
    """
    alarms = HumanRequest.objects.filter(OPEN & ~Q(run__phase__in=OVER), alarm__isnull=False)
    # Not the bare column: by the phase, every waiting run would be read.
    naps = Run.objects.alias(at=Coalesce("phase", Value(""))).filter(at__in=TIMED, wake_at__isnull=False)
    oldest = {
        "deadlines": alarms.order_by("alarm").values_list("alarm", flat=True).first(),
        "answers": Reply.objects.filter(settles__isnull=False, undone__isnull=True)
        .order_by("settles")
        .values_list("settles", flat=True)
        .first(),
        "naps": naps.order_by("wake_at").values_list("wake_at", flat=True).first(),
        "schedules": Schedule.objects.filter(next_at__isnull=False)
        .order_by("next_at")
        .values_list("next_at", flat=True)
        .first(),
    }
    return {name: (now - at).total_seconds() for name, at in oldest.items() if at is not None and at < now}
