"""Notifies operators and owners of schedules whose time has passed without a run."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Notice, Schedule
from wfdash.access.directory import people_who
from wfdash.notifications.write import notify_workflow

LATE = timedelta(minutes=5)
WATCHED_SECONDS = 60.0
"""How long this process must have seen it late: one that has just started fires what is due first."""

_seen: dict[tuple[str, datetime], float] = {}


def announce_late(limit: int = 100) -> int:
    """Notify those concerned of schedules that are late, once for each time that passed. Returns how many."""
    late = Schedule.objects.filter(next_at__lt=timezone.now() - LATE).select_related("owner").order_by("next_at")
    found = {(schedule.pk, schedule.next_at): schedule for schedule in late[:limit] if schedule.next_at is not None}
    now = time.monotonic()
    for gone in _seen.keys() - found.keys():
        del _seen[gone]
    return sum(
        _announce(schedule) for key, schedule in found.items() if now - _seen.setdefault(key, now) >= WATCHED_SECONDS
    )


def _announce(schedule: Schedule) -> int:
    once = f"late:{schedule.pk}:{schedule.next_at:%Y-%m-%dT%H:%M:%S}"
    # By range, as a unique index serves it on both databases.
    if Notice.objects.filter(once__gt=f"{once}:", once__lt=f"{once};").exists():
        return 0
    people = {*(viewer.user for viewer in people_who("operate", schedule.workflow)), schedule.owner}
    text = f"Due at {schedule.next_at:%Y-%m-%d %H:%M} UTC, and no run has started."
    with write():
        notify_workflow("late", schedule.workflow, people, facts={"subject": schedule.name, "text": text}, once=once)
    return 1
