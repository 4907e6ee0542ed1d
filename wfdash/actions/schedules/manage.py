"""Schedules: create, change, pause, resume, delete, and run one now.

Anyone who may start runs of a workflow may schedule them; the runs are started on behalf of the person who created,
changed or resumed the schedule last. Pausing and deleting require the right to operate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from checkpoints import ids
from checkpoints.database.alias import atomic, connection
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.models import Run, RunFact, Schedule
from checkpoints.records import Json
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.actions.idempotency import idempotent, made_before
from wfdash.actions.runs.lifecycle import begin_run, checked_input
from wfdash.domain.cron import BadCron, Cron, parse
from wfdash.errors import Invalid, NotAllowed, NotFound, WrongState
from wfdash.schemas.validate import Problem, flaws_of

FACT = "schedule"
"""The search attribute that holds the id of the schedule that started a run."""
LONGEST_NAME = 100
MISSED = {
    "skip": "Skip",
    "once": "Run once for the latest",
    "all": "Run each (up to 100)",
}
OVERLAP = {"allow": "Start anyway", "skip": "Skip"}


@dataclass(frozen=True, kw_only=True)
class SchedulePlan:
    """A schedule's settings: when, in which zone, with which input. Choices: ``MISSED`` and ``OVERLAP``."""

    name: str
    cron: str
    zone: str = "UTC"
    message: Json = None
    missed: str = "once"
    overlap: str = "allow"

    def kept(self) -> dict[str, Any]:
        """Return the settings as columns, with surrounding spaces removed."""
        return asdict(self) | {"name": self.name.strip(), "cron": self.cron.strip()}


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


def facts_of(schedule: Schedule, due: datetime | None = None) -> dict[str, Json]:
    """Return what a run's event contains about the schedule that started it. ``due``: the scheduled time."""
    named: dict[str, Json] = {"schedule": schedule.pk, "schedule_name": schedule.name}
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
    if not 0 < len(plan.name.strip()) <= LONGEST_NAME or flaws_of(plan.name):
        found.append({"loc": ["name"], "msg": f"Enter a name of at most {LONGEST_NAME} characters"})
    for text, zone in ((plan.cron, "UTC"), ("@daily", plan.zone)):
        try:
            parse(text, zone)
        except BadCron as error:
            found.append({"loc": [error.field], "msg": str(error)})
    for name, known in (("missed", MISSED), ("overlap", OVERLAP)):
        if getattr(plan, name) not in known:
            found.append({"loc": [name], "msg": f"Must be one of {', '.join(known)}"})
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
        raise Invalid([{"loc": [error.field], "msg": str(error)}]) from error


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
        raise Invalid([{"loc": ["name"], "msg": message}]) from None


def _change(row: Schedule, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(row, name, value)
    row.updated = database_now()
    row.save()


def _record(viewer: Viewer, verb: str, row: Schedule, right: str, **facts: Json) -> None:
    entries.record(
        viewer, verb, workflow=row.workflow, right=right, facts={"schedule": row.pk, "name": row.name, **facts}
    )
