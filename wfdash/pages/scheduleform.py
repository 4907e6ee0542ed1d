"""The form of a schedule: when, in which zone, with which input. Without scripts a button says when it fires."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from checkpoints.models import Schedule
from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.cron import zones
from wfdash.desk.schedules import MISSED, OVERLAP, Plan, plan_problems
from wfdash.errors import Invalid, NotAllowed
from wfdash.pages.act import new_key
from wfdash.pages.door import key_of, page, viewer_of
from wfdash.pages.filled import filled
from wfdash.pages.forms import BoundForm, Form
from wfdash.pages.schedules import coming_of, zone_of

PREFIX = "input:"
TIMES = (("0 9 * * MON-FRI", "Workdays at nine"), ("0 * * * *", "Every hour"), ("0 0 1 * *", "The first of a month"))
"""Expressions to begin with."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What the form shows: of which workflow, what was typed, what is wrong."""

    row: queries.WorkflowRow
    typed: dict[str, str]
    form: Form
    problems: dict[str, str] = field(default_factory=dict)
    filled: str = ""
    """Where its input comes from, in words."""
    schedule: queries.ScheduleRow | None = None
    """The one that is edited."""
    key: str = ""


@page("GET", "POST")
def new(request: HttpRequest) -> HttpResponse:
    """Show the form for ``workflow``; a POST makes the schedule. ``example``, ``last``, ``from`` fill the input."""
    viewer, name = viewer_of(request), request.GET.get("workflow", "").replace("\0", "")
    if not name:
        rows = [row for row in queries.workflows(viewer) if row.may_start]
        return render(request, "schedules/choose.html", {"rows": rows})
    row = _startable(viewer, name)
    initial, words = filled(request, viewer, row)
    form = Form.from_schema(row.description.input_schema, prefix=PREFIX, initial=initial)
    typed = {"name": "", "cron": "", "zone": zone_of(viewer), "missed": "once", "overlap": "allow"}
    sheet = Sheet(row=row, typed=typed, form=form, filled=words, key=new_key())
    if request.method != "POST":
        return _render(request, viewer, sheet)
    return _submit(request, viewer, sheet, lambda plan, key: desk.create_schedule(viewer, name, plan, key=key))


@page("GET", "POST")
def edit(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show a schedule's form; a POST changes it, and whoever does answers for its runs from then on."""
    viewer = viewer_of(request)
    known = queries.schedule(viewer, schedule_id)
    row = _startable(viewer, known.workflow)
    form = Form.from_schema(row.description.input_schema, prefix=PREFIX, initial=known.message)
    typed = {name: getattr(known, name) for name in ("name", "cron", "zone", "missed", "overlap")}
    sheet = Sheet(row=row, typed=typed, form=form, schedule=known, key=new_key())
    if request.method != "POST":
        return _render(request, viewer, sheet)
    return _submit(request, viewer, sheet, lambda plan, key: desk.change_schedule(viewer, schedule_id, plan, key=key))


def _startable(viewer: Viewer, name: str) -> queries.WorkflowRow:
    row = queries.workflow(viewer, name)
    if not row.may_start or not row.loaded:
        raise NotAllowed("Schedules are for those who may start runs of this workflow, while it is loaded")
    return row


def _submit(request: HttpRequest, viewer: Viewer, blank: Sheet, save: Any) -> HttpResponse:
    """Read the form and save it; draw it again with what was typed if it is not to be saved, or cannot be."""
    bound = blank.form.bind(request.POST, request.FILES)
    typed = {name: request.POST.get(name, "") for name in blank.typed}
    sheet = replace(blank, typed=typed, form=bound, filled="", key=request.POST.get("_key") or blank.key)
    if bound.changed_rows or "_check" in request.POST:
        calm = bound if bound.changed_rows else bound.with_errors(())
        return _render(request, viewer, replace(sheet, form=calm))
    plan = Plan(**{name: text.strip() for name, text in typed.items()}, message=bound.value)
    try:
        if not bound.is_valid:
            raise Invalid(plan_problems(plan))
        schedule: Schedule = save(plan, key_of(request))
    except Invalid as error:
        return _render(request, viewer, _marked(sheet, bound, error), status=422)
    messages.success(request, "Saved. It starts runs in your name." if schedule.next_at else "Saved. It is paused.")
    return redirect("schedule", schedule.pk)


def _marked(sheet: Sheet, bound: BoundForm, error: Invalid) -> Sheet:
    """Return the form with what is wrong at its fields: those of the schedule, those of the input."""
    within = [{**one, "loc": one["loc"][1:]} for one in error.errors if one["loc"][0] == "message"]
    problems = {str(one["loc"][0]): str(one["msg"]) for one in error.errors if one["loc"][0] != "message"}
    return replace(sheet, form=bound.with_errors([*bound.errors, *within]), problems=problems)


def _render(request: HttpRequest, viewer: Viewer, sheet: Sheet, status: int = 200) -> HttpResponse:
    context = (
        vars(sheet)
        | coming_of(sheet.typed, zone_of(viewer))
        | {
            "zones": zones(),
            "missed": MISSED.items(),
            "overlaps": OVERLAP.items(),
            "times": TIMES,
        }
    )
    return render(request, "schedules/form.html", context, status=status)
