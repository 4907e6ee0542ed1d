"""Schedules: the list, one schedule, and its actions. The form is in ``form``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.actions.schedules.manage import MISSED, OVERLAP, delete_schedule, pause_schedule, resume_schedule, run_now
from wfdash.domain.cron import BadCron, Cron, parse
from wfdash.errors import Invalid, WrongState
from wfdash.pages.runs.actions import new_key
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.site.list_address import read_address
from wfdash.pages.site.list_page import flaws_of, pages_context, search_context
from wfdash.pages.site.time_zone import zone_of
from wfdash.pages.ui.times import in_zone
from wfdash.queries.schedules import FILTER, read_schedule, read_schedules, runs_of
from wfdash.rendering import render

STATES = (("", "All"), ("state:on", "On"), ("state:paused", "Paused"), ("state:stopped", "Stopped"))
SHOWN = 50
DONE_MESSAGES = {
    "pause": "Schedule paused. Its current runs continue.",
    "resume": "Schedule resumed. Runs start as you.",
    "delete": "Schedule deleted. Existing runs are kept.",
}


@dataclass(frozen=True, kw_only=True)
class FiringTime:
    """A time at which a schedule fires, in its own zone and in the person's."""

    at: datetime
    there: str
    here: str
    """Empty where both clocks show the same."""
    instead_of: str = ""
    """The time of day that the zone's clock skips that day."""


@page("GET")
def schedules(request: HttpRequest) -> HttpResponse:
    """Show the schedules this person may see, the next to fire first; ``q`` filters."""
    viewer, place = viewer_of(request), read_address("schedules", request.GET)
    context = search_context(place, FILTER) | {
        "states": [(place.at(q=query).url(), label, place.q == query) for query, label in STATES],
        "may_start": viewer.may_anywhere("start"),
        "key": new_key(),
    }
    try:
        found = read_schedules(viewer, text=place.q, cursor=request.GET.get("after", ""), limit=SHOWN, times=False)
    except Invalid as error:
        return render(request, "schedules/page.html", context | {"flaws": flaws_of(error)})
    return render(request, "schedules/page.html", context | pages_context(place, found) | {"rows": found.items})


@page("GET", "POST")
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


@page("GET")
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
