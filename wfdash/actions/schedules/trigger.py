"""Starts the runs of due schedules. Each scheduled time starts one run, whichever process sweeps.

Any number of processes may sweep, late or repeatedly: advancing the schedule is a conditional update in the transaction
that starts the run. The clock is the database's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from checkpoints.database.clock import SCHEDULES, database_now
from checkpoints.database.living_workers import served_workflows
from checkpoints.database.storage import write
from checkpoints.models import Run, Schedule
from checkpoints.records import ENDED, Json
from checkpoints.rules import Priority
from wfdash import catalog
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.audit import entries
from wfdash.actions.runs.lifecycle import begin_run, checked_input
from wfdash.actions.schedules.manage import facts_of, note_run, requesters_of
from wfdash.actions.sweep_backoff import SweepBackoff
from wfdash.domain.cron import BadCron, DueTime, parse, turn
from wfdash.errors import Invalid
from wfdash.time_limit import TimeLimit
from wfdash.values.errors import message_of

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""For an author's check of an input: one that hangs must not keep other schedules from starting."""

_checks = TimeLimit(CHECK_SECONDS)
_backoff = SweepBackoff("Schedule %s could not start its run")


class StopSchedule(Exception):
    """The schedule cannot continue until someone fixes it; the message says what is wrong."""


class SkipTime(Exception):
    """The schedule cannot start a run this time."""


@dataclass(frozen=True, kw_only=True)
class PreparedStart:
    """What a run is started with: on whose behalf, of which workflow, with which input."""

    viewer: Viewer
    entry: catalog.Entry
    message: Json


def next_firing() -> datetime | None:
    """Return when the next schedule is or was due, None if there is none (one index look-up)."""
    return SCHEDULES.values_list("next_at", flat=True).first()


def fire_schedules(limit: int = 100) -> int:
    """Fire what is due, the oldest first, one transaction each. Returns how many schedules were advanced."""
    due = Schedule.objects.filter(next_at__lte=database_now()).exclude(pk__in=_backoff.backed_off())
    return _backoff.run_each(list(due.order_by("next_at", "pk").values_list("pk", flat=True)[:limit]), _fire_one)


def _fire_one(schedule_id: str) -> bool:
    # Looked up again: since the list was read, another process may have advanced it.
    still_due = Schedule.objects.filter(pk=schedule_id, next_at__lte=database_now())
    schedule = still_due.select_related("owner").first()
    return schedule is not None and _fire(schedule)


def _fire(schedule: Schedule) -> bool:
    now = database_now()
    try:
        came = turn(parse(schedule.cron, schedule.zone), _due(schedule), now, schedule.missed)
    except BadCron as error:
        return _stop(schedule, str(error))
    if came.fires is None:
        return _pass(schedule, came, now, schedule.problem)
    if _is_for_others(schedule.workflow):
        return False
    try:
        ready = _prepare(schedule)
    except StopSchedule as error:
        return _stop(schedule, str(error))
    except SkipTime as error:
        return _pass(schedule, came, came.fires, str(error))
    return _start(schedule, ready, came, came.fires)


def _start(schedule: Schedule, ready: PreparedStart, came: DueTime, fires: datetime) -> bool:
    """Advance the schedule and start the run, both or neither. Returns whether this process did."""
    with write():
        if schedule.overlap == "skip" and _is_open(schedule.last_run):
            return _move_on(schedule, came, passed_at=fires, problem="")
        if not _move_on(schedule, came, last_at=fires, problem=""):
            return False
        key = f"/schedule/{schedule.pk}/{fires.timestamp():.0f}"
        right = f"schedule {schedule.name}"
        try:
            run = begin_run(
                ready.viewer,
                ready.entry,
                ready.message,
                start_key=key,
                right=right,
                facts=facts_of(schedule, fires),
                requesters=requesters_of(schedule),
                priority=Priority.TIMED,
            )
        except IntegrityError:
            return True
        note_run(schedule, run)
        Schedule.objects.filter(pk=schedule.pk).update(last_run=run.pk)
    return True


def _is_for_others(workflow: str) -> bool:
    """Return whether this process lacks the workflow and a live worker has it, which starts the run then."""
    if catalog.find(workflow) is not None:
        return False
    served = served_workflows()
    return served is None or workflow in served


def _prepare(schedule: Schedule) -> PreparedStart:
    """Return what the run is started with. Not in a transaction: it runs the author's code."""
    viewer = viewer_for(schedule.owner)
    if not viewer.may("start", schedule.workflow):
        raise StopSchedule(
            f"{schedule.owner.get_username()} cannot start this workflow. The user who resumes the schedule "
            "becomes its owner"
        )
    entry = catalog.find(schedule.workflow)
    if entry is None:
        raise SkipTime("Its workflow is not loaded. See Workflows for the error. The schedule continues once it is")
    try:
        return PreparedStart(viewer=viewer, entry=entry, message=_checked(schedule, entry))
    except Invalid as error:
        raise StopSchedule(f"Its input is no longer valid: {_error_text(error)}. Edit it, then resume") from error
    except Exception as error:
        log.exception("Could not check the input of schedule %s", schedule.pk)
        raise SkipTime(f"Its input could not be checked: {type(error).__name__}: {message_of(error)}") from error


def _checked(schedule: Schedule, entry: catalog.Entry) -> Json:
    return _checks.call(schedule.workflow, schedule.pk, lambda: checked_input(entry, schedule.message))


def _pass(schedule: Schedule, came: DueTime, at: datetime, problem: str) -> bool:
    with write():
        return _move_on(schedule, came, passed_at=at, problem=problem[:500])


def _stop(schedule: Schedule, problem: str) -> bool:
    with write():
        stopped = _move_on(schedule, DueTime(fires=None, following=None), problem=problem[:500])
        if stopped:
            facts = {"schedule": schedule.pk, "name": schedule.name, "problem": problem[:500]}
            entries.record(
                None,
                "stop schedule",
                workflow=schedule.workflow,
                right="automatic",
                facts=facts,
                actor=entries.SCHEDULE,
            )
    return stopped


def _move_on(schedule: Schedule, came: DueTime, **changes: Any) -> bool:
    """Advance the schedule to its next time, inside the caller's transaction. False if another process did, or it
    changed.
    """
    same = Schedule.objects.filter(pk=schedule.pk, next_at=schedule.next_at, updated=schedule.updated)
    return same.update(next_at=came.following, **changes) == 1


def _due(schedule: Schedule) -> datetime:
    if schedule.next_at is None:
        raise ValueError("This schedule has no next run")
    at: datetime = schedule.next_at
    return at


def _is_open(run: str | None) -> bool:
    return run is not None and Run.objects.filter(pk=run).exclude(phase__in=ENDED).exists()


def _error_text(error: Invalid) -> str:
    return "; ".join(": ".join([*map(str, one["loc"]), str(one["msg"])]) for one in error.errors[:3])
