"""The moments at which something becomes due by itself: where a bench's clock stops on its way."""

from __future__ import annotations

from datetime import datetime

from checkpoints.models import Run
from checkpoints.rules import TIMED
from wfdash.actions.requests import deadlines, finalize
from wfdash.actions.schedules import trigger


def next_moment(after: datetime, until: datetime) -> datetime | None:
    """Return the first moment later than ``after`` and not later than ``until``, None if there is none."""
    waking = Run.objects.filter(phase__in=TIMED, wake_at__gt=after).order_by("wake_at")
    found = (
        deadlines.next_alarm(after),
        finalize.next_finalization(after),
        trigger.next_firing(),
        waking.values_list("wake_at", flat=True).first(),
    )
    return min((at for at in found if at is not None and after < at <= until), default=None)
