"""Whether everything that was due has happened.

For monitoring, not for a person: these reads return counts and ages, and nothing of any workflow.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, Value
from django.db.models.functions import Coalesce

from checkpoints.models import OPEN, HumanRequest, Reply, Run, Schedule
from checkpoints.records import Phase
from checkpoints.rules import TIMED

OVER = (Phase.CANCELLED, Phase.COMPLETED)


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
