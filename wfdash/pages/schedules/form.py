"""The form of a schedule: when, in which zone, with which input. Without scripts a button shows when it fires."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from checkpoints.models import Schedule
from wfdash.access.viewer import Viewer
from wfdash.actions.schedules.manage import (
    MISSED,
    OVERLAP,
    SchedulePlan,
    change_schedule,
    create_schedule,
    plan_problems,
)
from wfdash.domain.cron import zones
from wfdash.errors import Invalid, NotAllowed
from wfdash.pages.runs.actions import new_key
from wfdash.pages.schedules.listing import upcoming_context
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.site.time_zone import zone_of
from wfdash.pages.ui.forms import BoundForm, FormView
from wfdash.pages.workflows.form_defaults import default_input
from wfdash.queries.schedules import ScheduleRow, read_schedule
from wfdash.queries.workflows import WorkflowRow, read_workflow, read_workflows
from wfdash.rendering import render

PREFIX = "input:"
TIMES = (("0 9 * * MON-FRI", "Weekdays at 9:00"), ("0 * * * *", "Every hour"), ("0 0 1 * *", "First of the month"))
"""Expressions to start from."""


@dataclass(frozen=True, kw_only=True)
class ScheduleForm:
    """The form's context: its workflow, what was typed, what is wrong."""

    row: WorkflowRow
    typed: dict[str, str]
    form: FormView
    problems: dict[str, str] = field(default_factory=dict)
    filled: str = ""
    """Where its input comes from, as text."""
    schedule: ScheduleRow | None = None
    """The edited schedule."""
    key: str = ""


@page("GET", "POST")
def new(request: HttpRequest) -> HttpResponse:
    """Show the form for ``workflow``; a POST creates the schedule. ``example``, ``last``, ``from`` fill the input."""
    viewer, name = viewer_of(request), request.GET.get("workflow", "").replace("\0", "")
    if not name:
        rows = [row for row in read_workflows(viewer) if row.may_start]
        return render(request, "schedules/choose.html", {"rows": rows})
    row = _startable(viewer, name)
    initial, words = default_input(request, viewer, row)
    form = FormView.from_schema(row.description.input_schema, prefix=PREFIX, initial=initial)
    typed = {"name": "", "cron": "", "zone": zone_of(viewer), "missed": "once", "overlap": "allow"}
    sheet = ScheduleForm(row=row, typed=typed, form=form, filled=words, key=new_key())
    if request.method != "POST":
        return _render(request, viewer, sheet)
    return _submit(request, viewer, sheet, lambda plan, key: create_schedule(viewer, name, plan, key=key))


@page("GET", "POST")
def edit(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show a schedule's form; a POST changes it, and its runs start on behalf of that person from then on."""
    viewer = viewer_of(request)
    known = read_schedule(viewer, schedule_id)
    row = _startable(viewer, known.workflow)
    form = FormView.from_schema(row.description.input_schema, prefix=PREFIX, initial=known.message)
    typed = {name: getattr(known, name) for name in ("name", "cron", "zone", "missed", "overlap")}
    sheet = ScheduleForm(row=row, typed=typed, form=form, schedule=known, key=new_key())
    if request.method != "POST":
        return _render(request, viewer, sheet)
    return _submit(request, viewer, sheet, lambda plan, key: change_schedule(viewer, schedule_id, plan, key=key))


def _startable(viewer: Viewer, name: str) -> WorkflowRow:
    row = read_workflow(viewer, name)
    if not row.may_start or not row.loaded:
        raise NotAllowed("Only those who can start this workflow can schedule it, and it must be loaded")
    return row


def _submit(request: HttpRequest, viewer: Viewer, blank: ScheduleForm, save: Any) -> HttpResponse:
    """Save the posted form; render it again with what was typed if it is not to be saved, or is not valid."""
    bound = blank.form.bind(request.POST, request.FILES)
    typed = {name: request.POST.get(name, "") for name in blank.typed}
    sheet = replace(blank, typed=typed, form=bound, filled="", key=request.POST.get("_key") or blank.key)
    if bound.changed_rows or "_check" in request.POST:
        calm = bound if bound.changed_rows else bound.with_errors(())
        return _render(request, viewer, replace(sheet, form=calm))
    plan = SchedulePlan(**{name: text.strip() for name, text in typed.items()}, message=bound.value)
    try:
        if not bound.is_valid:
            raise Invalid(plan_problems(plan))
        schedule: Schedule = save(plan, key_of(request))
    except Invalid as error:
        return _render(request, viewer, _with_errors(sheet, bound, error), status=422)
    messages.success(request, "Schedule saved. Runs start as you." if schedule.next_at else "Schedule saved (paused).")
    return redirect("wfdash:schedule", schedule.pk)


def _with_errors(sheet: ScheduleForm, bound: BoundForm, error: Invalid) -> ScheduleForm:
    """Return the form with errors at its fields: those of the schedule, those of the input."""
    within = [{**one, "loc": one["loc"][1:]} for one in error.errors if one["loc"][0] == "message"]
    problems = {str(one["loc"][0]): str(one["msg"]) for one in error.errors if one["loc"][0] != "message"}
    return replace(sheet, form=bound.with_errors([*bound.errors, *within]), problems=problems)


def _render(request: HttpRequest, viewer: Viewer, sheet: ScheduleForm, status: int = 200) -> HttpResponse:
    context = (
        vars(sheet)
        | upcoming_context(sheet.typed, zone_of(viewer))
        | {
            "zones": zones(),
            "missed": MISSED.items(),
            "overlaps": OVERLAP.items(),
            "times": TIMES,
        }
    )
    return render(request, "schedules/form.html", context, status=status)
