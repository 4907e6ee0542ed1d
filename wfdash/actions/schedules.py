"""Actions on schedules, and the runs that a due schedule starts."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import atomic, connection
from checkpoints.database.clock import SCHEDULES, database_now
from checkpoints.database.living_workers import served_workflows
from checkpoints.database.storage import write
from checkpoints.models import Notice, Run, RunFact, Schedule
from checkpoints.records import ENDED, Json, JsonObject, frozen
from checkpoints.rules import Priority
from wfdash.access.directory import people_who
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import audit
from wfdash.actions.pacing import SweepBackoff, idempotent, made_before
from wfdash.actions.runs.lifecycle import begin_run, checked_input
from wfdash.domain.cron import BadCron, Cron, DueTime, parse, turn
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState, wrong
from wfdash.domain.search_attributes import cleaned
from wfdash.engines import catalog
from wfdash.engines.catalog import TimeLimit
from wfdash.notifications.write import notify_workflow
from wfdash.values.errors import message_of
from wfdash.values.schemas.validate import Problem, flaws_of

# Starts the runs of due schedules. Each scheduled time starts one run, whichever process sweeps.

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""For an author's check of an input: one that hangs must not keep other schedules from starting."""

_checks = TimeLimit(CHECK_SECONDS)
_backoff = SweepBackoff("Schedule %s could not start its run")


class StopSchedule(Exception):
    """The schedule cannot continue until someone fixes it; the message says what is wrong."""


class SkipTime(Exception):
    """The schedule cannot start a run this time."""


@frozen
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
        last = Run.objects.filter(pk=schedule.last_run).exclude(phase__in=ENDED)
        if schedule.overlap == "skip" and last.exists():
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
        message = _checks.call(schedule.workflow, schedule.pk, lambda: checked_input(entry, schedule.message))
        return PreparedStart(viewer=viewer, entry=entry, message=message)
    except Invalid as error:
        problems = "; ".join(": ".join([*map(str, one["loc"]), str(one["msg"])]) for one in error.errors[:3])
        raise StopSchedule(f"Its input is no longer valid: {problems}. Edit it, then resume") from error
    except Exception as error:
        log.exception("Could not check the input of schedule %s", schedule.pk)
        raise SkipTime(f"Its input could not be checked: {type(error).__name__}: {message_of(error)}") from error


def _pass(schedule: Schedule, came: DueTime, at: datetime, problem: str) -> bool:
    with write():
        return _move_on(schedule, came, passed_at=at, problem=problem[:500])


def _stop(schedule: Schedule, problem: str) -> bool:
    with write():
        stopped = _move_on(schedule, DueTime(fires=None, following=None), problem=problem[:500])
        if stopped:
            facts = {"schedule": schedule.pk, "name": schedule.name, "problem": problem[:500]}
            audit.record(
                None,
                "stop schedule",
                workflow=schedule.workflow,
                right="automatic",
                facts=facts,
                actor=audit.SCHEDULE,
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


# Schedules: create, change, pause, resume, delete, and run one now.

FACT = "schedule"
"""The search attribute that holds the id of the schedule that started a run."""
LONGEST_NAME = 100
MISSED = {
    "skip": "Skip",
    "once": "Run once for the latest",
    "all": "Run each (up to 100)",
}
OVERLAP = {"allow": "Start anyway", "skip": "Skip"}


@frozen
class SchedulePlan:
    """A schedule's settings: when, in which zone, with which input. Choices: ``MISSED`` and ``OVERLAP``."""

    name: str
    cron: str
    zone: str = "UTC"
    message: Json = None
    missed: str = "once"
    overlap: str = "allow"

    def kept(self) -> JsonObject:
        """Return the settings as columns, with surrounding spaces removed."""
        return asdict(self) | {"name": cleaned(self.name), "cron": self.cron.strip()}


def create_schedule(viewer: Viewer, workflow: str, plan: SchedulePlan, *, key: str | None = None) -> Schedule:
    """Create a schedule that starts runs of a workflow on behalf of this person, and return it.

    ``Invalid`` with errors per field (those of the input under ``message``), ``NotAllowed``, ``NotFound``.
    """
    _refuse_unless(viewer, "start", workflow)
    plan, cron = _checked_plan(workflow, plan)
    with write(), idempotent(viewer, key, "create schedule", [workflow, asdict(plan)]) as call:
        if call.previous_result is not None:
            return find_schedule(viewer, str(call.previous_result["id"]))
        now = database_now()
        row = Schedule(id=ids.new_token(), workflow=workflow, owner=viewer.user, created=now, updated=now)
        row.authors = sorted(viewer.names)
        _write_plan(row, plan, _next(cron, now))
        call.record(id=row.pk)
        _record(viewer, "create schedule", row, "start", cron=row.cron, zone=row.zone)
    return row


def change_schedule(viewer: Viewer, schedule_id: str, plan: SchedulePlan, *, key: str | None = None) -> Schedule:
    """Change a schedule and return it. It continues from now, on behalf of this person; a paused one stays paused."""
    workflow = find_schedule(viewer, schedule_id, right="start").workflow
    plan, cron = _checked_plan(workflow, plan)
    with write(), idempotent(viewer, key, "change schedule", [schedule_id, asdict(plan)]) as call:
        row = find_schedule(viewer, schedule_id, right="start")
        if call.previous_result is not None:
            return row
        before = {"cron": row.cron, "zone": row.zone}
        row.owner, row.problem = viewer.user, ""
        row.authors = sorted({*row.authors, *viewer.names})
        _write_plan(row, plan, None if row.paused else _next(cron, database_now()))
        _record(viewer, "change schedule", row, "start", cron=row.cron, zone=row.zone, before=before)
    return row


def pause_schedule(viewer: Viewer, schedule_id: str, *, key: str | None = None) -> Schedule:
    """Pause a schedule until someone resumes it. Runs it has started continue."""
    with write(), idempotent(viewer, key, "pause schedule", [schedule_id]) as call:
        row = find_schedule(viewer, schedule_id, right="operate")
        if call.previous_result is None:
            if row.paused:
                raise WrongState("This schedule is already paused")
            _change(row, paused=True, next_at=None)
            _record(viewer, "pause schedule", row, "operate")
    return row


def resume_schedule(viewer: Viewer, schedule_id: str, *, key: str | None = None) -> Schedule:
    """Resume a paused or stopped schedule with its next time, on behalf of this person. Missed times are not
    caught up.
    """
    with write(), idempotent(viewer, key, "resume schedule", [schedule_id]) as call:
        row = find_schedule(viewer, schedule_id, right="start")
        if call.previous_result is None:
            if row.next_at is not None:
                raise WrongState("This schedule is not paused")
            row.owner, row.authors = viewer.user, sorted({*row.authors, *viewer.names})
            _change(row, paused=False, problem="", next_at=_next(_parsed(row), database_now()))
            _record(viewer, "resume schedule", row, "start")
    return row


def delete_schedule(viewer: Viewer, schedule_id: str, *, key: str | None = None) -> None:
    """Delete a schedule. Its runs stay."""
    with write(), idempotent(viewer, key, "delete schedule", [schedule_id]) as call:
        if call.previous_result is None:
            row = find_schedule(viewer, schedule_id, right="operate")
            _record(viewer, "delete schedule", row, "operate", cron=row.cron, zone=row.zone)
            Schedule.objects.filter(pk=row.pk).delete()


def run_now(viewer: Viewer, schedule_id: str, *, key: str | None = None) -> Run:
    """Start a run of the schedule now, on behalf of this person, also of a paused one, and return it. Its times do not
    change.

    ``Invalid`` if its input no longer matches the workflow.
    """
    found = find_schedule(viewer, schedule_id, right="start")
    entry = catalog.get(found.workflow)
    message = checked_input(entry, found.message)
    with write(), idempotent(viewer, key, "run schedule", [schedule_id]) as call:
        if call.previous_result is not None:
            return made_before(Run, str(call.previous_result["id"]))
        row = find_schedule(viewer, schedule_id, right="start")
        run = begin_run(viewer, entry, message, facts=facts_of(row), requesters=requesters_of(row))
        note_run(row, run)
        Schedule.objects.filter(pk=row.pk).update(last_run=run.pk)
        call.record(id=run.pk)
    return run


def find_schedule(viewer: Viewer, schedule_id: str, *, right: str = "see") -> Schedule:
    """Return a schedule through its viewer, locked inside a transaction. ``NotFound``, ``NotAllowed``."""
    rows = Schedule.objects.select_related("owner").filter(viewer.scope("see"), pk=schedule_id)
    if connection().in_atomic_block:
        rows = rows.select_for_update(of=("self",))
    row = rows.first()
    if row is None:
        raise NotFound("Schedule not found, or you do not have access")
    _refuse_unless(viewer, right, row.workflow)
    return row


def requesters_of(schedule: Schedule) -> list[str]:
    """Return who counts as requester of its runs, whichever way they start: its authors, and the person it runs as."""
    return list(dict.fromkeys([*schedule.authors, schedule.owner.get_username()]))


def facts_of(schedule: Schedule, due: datetime | None = None) -> JsonObject:
    """Return what a run's event contains about the schedule that started it. ``due``: the scheduled time."""
    named: JsonObject = {"schedule": schedule.pk, "schedule_name": schedule.name}
    return named | ({"due": due.isoformat()} if due else {})


def note_run(schedule: Schedule, run: Run) -> None:
    """Index a run by its schedule."""
    RunFact.objects.create(run=run, name=FACT, text=schedule.pk, created=run.created)


def _refuse_unless(viewer: Viewer, right: str, workflow: str) -> None:
    if viewer.may(right, workflow):
        return
    if viewer.may("see", workflow):
        raise NotAllowed("Only operators can schedule runs. Ask an operator of the workflow")
    raise NotFound(f"No workflow named {workflow!r}")


def plan_problems(plan: SchedulePlan) -> list[Problem]:
    """Return what is wrong with a plan except for its input, by field; empty if nothing is."""
    found: list[Problem] = []
    if not 0 < len(cleaned(plan.name)) <= LONGEST_NAME or flaws_of(plan.name):
        found.append(wrong("name", f"Enter a name of at most {LONGEST_NAME} characters"))
    for text, zone in ((plan.cron, "UTC"), ("@daily", plan.zone)):
        try:
            parse(text, zone)
        except BadCron as error:
            found.append(wrong(error.field, str(error)))
    for name, known in (("missed", MISSED), ("overlap", OVERLAP)):
        if getattr(plan, name) not in known:
            found.append(wrong(name, f"Must be one of {', '.join(known)}"))
    return found


def _checked_plan(workflow: str, plan: SchedulePlan) -> tuple[SchedulePlan, Cron]:
    """Return the plan with its input as a run will receive it, and its expression. ``Invalid`` names every field."""
    entry = catalog.get(workflow)
    problems, message = plan_problems(plan), plan.message
    try:
        message = checked_input(entry, plan.message)
    except Invalid as error:
        problems += [{**problem, "loc": ["message", *problem["loc"]]} for problem in error.errors]
    if problems:
        raise Invalid(problems)
    return replace(plan, message=message), parse(plan.cron, plan.zone)


def _parsed(row: Schedule) -> Cron:
    """Return a stored expression, parsed. Zones come and go: ``Invalid`` if it is no longer valid."""
    try:
        return parse(row.cron, row.zone)
    except BadCron as error:
        raise Invalid.at(error.field, str(error)) from error


def _next(cron: Cron, now: datetime) -> datetime | None:
    return next(iter(cron.after(now)), None)


def _write_plan(row: Schedule, plan: SchedulePlan, next_at: datetime | None) -> None:
    for name, value in plan.kept().items():
        setattr(row, name, value)
    row.next_at, row.updated = next_at, database_now()
    try:
        with atomic():
            row.save()
    except IntegrityError:
        message = f"This workflow already has a schedule named {row.name!r}. Choose another name"
        raise Invalid.at("name", message) from None


def _change(row: Schedule, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(row, name, value)
    row.updated = database_now()
    row.save()


def _record(viewer: Viewer, verb: str, row: Schedule, right: str, **facts: Json) -> None:
    audit.record(
        viewer, verb, workflow=row.workflow, right=right, facts={"schedule": row.pk, "name": row.name, **facts}
    )


# Notifies operators and owners of schedules whose time has passed without a run.

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
