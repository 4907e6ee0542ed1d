"""Schedules whose time has come: starts their runs. Rows, and each time starts one run, whoever sweeps.

Any number of processes may sweep, late or again: moving the schedule on is a conditional update in the transaction
that starts the run. The clock is the database's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import DatabaseError, IntegrityError

from checkpoints.models import Run, Schedule
from checkpoints.orm import write
from checkpoints.records import ENDED, Json
from wfdash import catalog
from wfdash.access import Viewer, viewer_for
from wfdash.cron import BadCron, Turn, parse, turn
from wfdash.desk import audit
from wfdash.desk.runs import begin_run, checked_input
from wfdash.desk.schedules import facts_of, note_run
from wfdash.desk.timers import database_now
from wfdash.errors import Invalid

log = logging.getLogger(__name__)


class Stop(Exception):
    """It cannot go on until somebody does something about it; the message says what."""


class Pass(Exception):
    """It cannot start a run this time."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What a run is started with: in whose name, of what, with which input."""

    viewer: Viewer
    entry: catalog.Entry
    message: Json


def next_firing() -> datetime | None:
    """Return when the next schedule is due, or was; None if there is none (one look into an index)."""
    waiting = Schedule.objects.filter(next_at__isnull=False).order_by("next_at")
    return waiting.values_list("next_at", flat=True).first()


def fire_schedules(limit: int = 100) -> int:
    """Do what is due, the oldest first, one transaction each; returns how many schedules were moved on."""
    due = Schedule.objects.filter(next_at__lte=database_now()).order_by("next_at", "pk").select_related("owner")
    return sum(_fire_safely(schedule) for schedule in list(due[:limit]))


def _fire_safely(schedule: Schedule) -> bool:
    """One schedule that cannot be fired does not keep the others from it."""
    try:
        return _fire(schedule)
    except DatabaseError:
        log.exception("Could not fire schedule %s; trying again", schedule.pk)
        return False


def _fire(schedule: Schedule) -> bool:
    now = database_now()
    try:
        came = turn(parse(schedule.cron, schedule.zone), _due(schedule), now, schedule.missed)
    except BadCron as error:
        return _stop(schedule, str(error))
    if came.fires is None:
        return _pass(schedule, came, now, schedule.problem)
    try:
        ready = _prepare(schedule)
    except Stop as error:
        return _stop(schedule, str(error))
    except Pass as error:
        return _pass(schedule, came, came.fires, str(error))
    return _start(schedule, ready, came, came.fires)


def _start(schedule: Schedule, ready: Ready, came: Turn, fires: datetime) -> bool:
    """Move the schedule on and start the run, both or none."""
    with write():
        if schedule.overlap == "skip" and _is_open(schedule.last_run):
            return _move_on(schedule, came, passed_at=fires, problem="")
        if not _move_on(schedule, came, last_at=fires, problem=""):
            return False
        key = f"/schedule/{schedule.pk}/{fires.timestamp():.0f}"
        right = f"schedule {schedule.name}"
        try:
            run = begin_run(
                ready.viewer, ready.entry, ready.message, start_key=key, right=right, facts=facts_of(schedule, fires)
            )
        except IntegrityError:
            return True
        note_run(schedule, run)
        Schedule.objects.filter(pk=schedule.pk).update(last_run=run.pk)
    return True


def _prepare(schedule: Schedule) -> Ready:
    """Return what the run is started with. Not in a transaction: it runs the author's code."""
    viewer = viewer_for(schedule.owner)
    if not viewer.may("start", schedule.workflow):
        raise Stop(f"{schedule.owner.get_username()} may not start runs of this workflow: who resumes it takes it over")
    entry = catalog.find(schedule.workflow)
    if entry is None:
        raise Pass("Its workflow is not loaded: see the workflows for what failed. It goes on by itself once it is")
    try:
        return Ready(viewer=viewer, entry=entry, message=checked_input(entry, schedule.message))
    except Invalid as error:
        raise Stop(f"Its input does not fit the workflow any more: {_words(error)}. Edit it, then resume") from error
    except Exception as error:
        log.exception("Could not check the input of schedule %s", schedule.pk)
        raise Pass(f"Its input could not be checked: {type(error).__name__}: {error}") from error


def _pass(schedule: Schedule, came: Turn, at: datetime, problem: str) -> bool:
    with write():
        return _move_on(schedule, came, passed_at=at, problem=problem[:500])


def _stop(schedule: Schedule, problem: str) -> bool:
    with write():
        stopped = _move_on(schedule, Turn(fires=None, following=None), problem=problem[:500])
        if stopped:
            facts = {"schedule": schedule.pk, "name": schedule.name, "problem": problem[:500]}
            audit.record(
                None, "stop schedule", workflow=schedule.workflow, right="by itself", facts=facts, actor=audit.SCHEDULE
            )
    return stopped


def _move_on(schedule: Schedule, came: Turn, **changes: Any) -> bool:
    """Give the schedule its next time unless somebody else did, or changed it; within the caller's transaction."""
    same = Schedule.objects.filter(pk=schedule.pk, next_at=schedule.next_at, updated=schedule.updated)
    return same.update(next_at=came.following, **changes) == 1


def _due(schedule: Schedule) -> datetime:
    if schedule.next_at is None:
        raise ValueError("This schedule has no next time")
    return schedule.next_at


def _is_open(run: str | None) -> bool:
    return run is not None and Run.objects.filter(pk=run).exclude(phase__in=ENDED).exists()


def _words(error: Invalid) -> str:
    return "; ".join(": ".join([*map(str, one["loc"]), str(one["msg"])]) for one in error.errors[:3])
