"""Pages of schedules: the list, one schedule, and the form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import Schedule
from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.actions.schedules import (
    MISSED,
    OVERLAP,
    SchedulePlan,
    change_schedule,
    create_schedule,
    delete_schedule,
    pause_schedule,
    plan_problems,
    resume_schedule,
    run_now,
)
from wfdash.domain.cron import BadCron, Cron, parse, zones
from wfdash.domain.errors import Invalid, NotAllowed, WrongState
from wfdash.notifications.rendering import render
from wfdash.queries.schedules import FILTER, ScheduleRow, read_schedule, read_schedules, runs_of
from wfdash.queries.workflows import WorkflowRow, read_workflow, read_workflows
from wfdash.web.pages.runs.actions import new_key
from wfdash.web.pages.site.decorators import form_page, get_page, key_of, viewer_of, zone_of
from wfdash.web.pages.site.list_page import flaws_of, pages_context, read_address, search_context
from wfdash.web.pages.ui.forms.form import BoundForm, FormView
from wfdash.web.pages.ui.times import in_zone
from wfdash.web.pages.workflows import default_input

# The form of a schedule: when, in which zone, with which input. Without scripts a button shows when it fires.

PREFIX = "input:"
TIMES = (("0 9 * * MON-FRI", "Weekdays at 9:00"), ("0 * * * *", "Every hour"), ("0 0 1 * *", "First of the month"))
"""Expressions to start from."""


@frozen
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


@form_page
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
    return _submit(request, viewer, sheet, lambda plan, key: create_schedule(viewer, name, plan, key=key))


@form_page
def edit(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show a schedule's form; a POST changes it, and its runs start on behalf of that person from then on."""
    viewer = viewer_of(request)
    known = read_schedule(viewer, schedule_id)
    row = _startable(viewer, known.workflow)
    form = FormView.from_schema(row.description.input_schema, prefix=PREFIX, initial=known.message)
    typed = {name: getattr(known, name) for name in ("name", "cron", "zone", "missed", "overlap")}
    sheet = ScheduleForm(row=row, typed=typed, form=form, schedule=known, key=new_key())
    return _submit(request, viewer, sheet, lambda plan, key: change_schedule(viewer, schedule_id, plan, key=key))


def _startable(viewer: Viewer, name: str) -> WorkflowRow:
    row = read_workflow(viewer, name)
    if not row.may_start or not row.loaded:
        raise NotAllowed("Only those who can start this workflow can schedule it, and it must be loaded")
    return row


def _submit(request: HttpRequest, viewer: Viewer, blank: ScheduleForm, save: Any) -> HttpResponse:
    """Save the posted form; render it if none was, and again with what was typed if it is not to be saved, or wrong."""
    if request.method != "POST":
        return _render(request, viewer, blank)
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


STATES = (("", "All"), ("state:on", "On"), ("state:paused", "Paused"), ("state:stopped", "Stopped"))
PAGE_ROWS = 50
DONE_MESSAGES = {
    "pause": "Schedule paused. Its current runs continue.",
    "resume": "Schedule resumed. Runs start as you.",
    "delete": "Schedule deleted. Existing runs are kept.",
}


@frozen
class FiringTime:
    """A time at which a schedule fires, in its own zone and in the person's."""

    at: datetime
    there: str
    here: str
    """Empty where both clocks show the same."""
    instead_of: str = ""
    """The time of day that the zone's clock skips that day."""


@get_page
def schedules(request: HttpRequest) -> HttpResponse:
    """Show the schedules this person may see, the next to fire first; ``q`` filters."""
    viewer, place = viewer_of(request), read_address("schedules", request.GET)
    context = search_context(place, FILTER) | {
        "states": [(place.at(q=query).url(), label, place.q == query) for query, label in STATES],
        "may_start": viewer.may_anywhere("start"),
        "key": new_key(),
    }
    try:
        found = read_schedules(viewer, text=place.q, cursor=request.GET.get("after", ""), limit=PAGE_ROWS, times=False)
    except Invalid as error:
        return render(request, "schedules/page.html", context | {"flaws": flaws_of(error)})
    return render(request, "schedules/page.html", context | pages_context(place, found) | {"rows": found.items})


@form_page
def schedule(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show a schedule; a POST (``act``: run, pause, resume, delete) performs that and redirects."""
    viewer = viewer_of(request)
    if request.method == "POST":
        return _act(request, viewer, schedule_id)
    row = read_schedule(viewer, schedule_id)
    context = {
        "row": row,
        "moments": fire_times(row.upcoming, row.cron, row.zone, zone_of(viewer)),
        "here": zone_of(viewer),
        "runs": runs_of(viewer, row),
        "missed": MISSED.get(row.missed, row.missed),
        "overlap": OVERLAP.get(row.overlap, row.overlap),
        "inspect": viewer.may("inspect", row.workflow),
        "keys": {name: new_key() for name in ("run", *DONE_MESSAGES)},
    }
    return render(request, "schedules/schedule.html", context)


@get_page
def upcoming(request: HttpRequest) -> HttpResponse:
    """Return the part of the form that shows when an expression fires next, while it is typed."""
    return render(request, "schedules/coming.html", upcoming_context(request.GET, zone_of(viewer_of(request))))


def upcoming_context(given: Mapping[str, Any], here: str) -> dict[str, object]:
    """Return the context of ``schedules/coming.html`` for ``cron`` and ``zone`` in a form's data."""
    text, zone = (str(given.get(name, "")).strip() for name in ("cron", "zone"))
    try:
        cron: Cron = parse(text, zone)
    except BadCron as error:
        return {"flaw": str(error) if text else ""}
    times = tuple(cron.after(timezone.now(), 5))
    return {"words": cron.words, "moments": fire_times(times, text, zone, here), "zone": zone, "here": here}


def fire_times(times: tuple[datetime, ...], cron: str, there: str, here: str) -> list[FiringTime]:
    """Return times at which an expression fires, in its zone and another; an unknown one is shown as UTC."""
    return [_fire_time(at, parse(cron, there).skipped(at), in_zone(at, there), here) for at in times]


def _fire_time(at: datetime, skipped: datetime | None, there: str, here: str) -> FiringTime:
    same = in_zone(at, here) == there
    instead_of = f"{skipped:%H:%M}" if skipped else ""
    return FiringTime(at=at, there=there, here="" if same else in_zone(at, here, after=there), instead_of=instead_of)


def _act(request: HttpRequest, viewer: Viewer, schedule_id: str) -> HttpResponse:
    act, key = request.POST.get("act", ""), key_of(request)
    try:
        if act == "run":
            run = run_now(viewer, schedule_id, key=key)
            messages.success(request, "Run started.")
            return redirect("wfdash:run", run.pk)
        if act == "delete":
            delete_schedule(viewer, schedule_id, key=key)
        elif act in DONE_MESSAGES:
            (pause_schedule if act == "pause" else resume_schedule)(viewer, schedule_id, key=key)
    except WrongState as error:
        messages.warning(request, str(error))
    except Invalid as error:
        message = "; ".join(str(problem["msg"]) for problem in error.errors[:3])
        messages.error(request, f"The run input is no longer valid: {message}. Edit the schedule first.")
    else:
        messages.success(request, DONE_MESSAGES.get(act, "No changes were made."))
    return redirect("wfdash:schedules" if act == "delete" else _back(request, schedule_id))


def _back(request: HttpRequest, schedule_id: str) -> str:
    """Return the list where its button was pressed, or the schedule's own page."""
    listed = request.POST.get("from") == "list"
    return reverse("wfdash:schedules") if listed else reverse("wfdash:schedule", args=[schedule_id])
