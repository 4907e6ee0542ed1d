"""Rows by which a worker says that it lives. The clock is the database's."""

from __future__ import annotations

from datetime import timedelta

from checkpoints.models import WorkerBeat
from checkpoints.orm import write
from wfdash.desk.timers import database_now

FORGET = timedelta(hours=1)
"""Rows of workers that ended without a word are removed after so long, by one that begins."""


def begin_beat(worker: str) -> None:
    """Say that a worker begins."""
    now = database_now()
    with write():
        WorkerBeat.objects.filter(seen__lt=now - FORGET).delete()
        WorkerBeat.objects.update_or_create(pk=worker, defaults={"started": now, "seen": now, "runs": 0, "late": 0.0})


def beat(worker: str, *, runs: int, late: float) -> None:
    """Say that it lives, how many runs it drives, and by how many seconds what was due at a time is late."""
    with write():
        alive = WorkerBeat.objects.filter(pk=worker).update(seen=database_now(), runs=runs, late=late)
    if not alive:
        begin_beat(worker)


def end_beat(worker: str) -> None:
    """Say that it ends."""
    with write():
        WorkerBeat.objects.filter(pk=worker).delete()
