"""The database's clock, by which due times are compared in every process."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.storage import run_statement
from checkpoints.models import OPEN, HumanRequest, Reply, Run, Schedule
from checkpoints.records import Phase
from checkpoints.rules import TIMED

# Rows to which something happens at a time, the next one first.

OVER = (Phase.CANCELLED, Phase.COMPLETED)
WAITING = OPEN & ~Q(run__phase__in=OVER)
"""Requests whose deadlines apply. A decided one that can still be undone keeps its alarm: the answer came first."""
ALARMS = HumanRequest.objects.filter(WAITING, alarm__isnull=False).order_by("alarm")
SETTLING = Reply.objects.filter(settles__isnull=False, undone__isnull=True).order_by("settles")
"""Replies that take effect once they cannot be undone any more."""
# Not the bare column: by the phase, every waiting run would be read.
_asleep = Run.objects.alias(at=Coalesce("phase", Value(""))).filter(at__in=TIMED, wake_at__isnull=False)
SLEEPING = _asleep.order_by("wake_at")
"""Runs that sleep."""
SCHEDULES = Schedule.objects.filter(next_at__isnull=False).order_by("next_at")


def database_now() -> datetime:
    """Return the database's time; SQLite's is this process's."""
    if connection().vendor == "sqlite":
        return timezone.now()
    ((now,),) = run_statement(connection(), "SELECT clock_timestamp()")
    return now  # type: ignore[no-any-return]
