"""Schedules: all of them, one, and what can be done with it. The form that makes one is in ``scheduleform``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.cron import BadCron, Cron, parse
from wfdash.desk.schedules import MISSED, OVERLAP
from wfdash.desk.tell import preferences_of
from wfdash.errors import Invalid, WrongState
from wfdash.notices.preferences import Preferences
from wfdash.pages.act import new_key
from wfdash.pages.door import key_of, page, viewer_of
from wfdash.pages.timefmt import in_zone

STATES = (("", "All"), ("state:on", "On"), ("state:paused", "Paused"), ("state:stopped", "Stopped"))
SAID = {
    "pause": "Paused. It starts nothing until somebody resumes it; its runs go on.",
    "resume": "It goes on with its next time, in your name.",
    "delete": "The schedule is deleted. Its runs stay.",
}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time at which a schedule fires, as the clocks of its zone and of the person's show it."""

    at: datetime
    there: str
    here: str
    """Empty where both clocks show the same."""


@page("GET")
def schedules(request: HttpRequest) -> HttpResponse:
    """Show every schedule this person may see, those that come next first; ``q`` filters."""
    viewer, text = viewer_of(request), request.GET.get("q", "")
    context = {
        "rows": queries.schedules(viewer, text=text),
        "text": text,
        "unknown": queries.unknown_words(text),
        "states": [(query, label, text.strip() == query) for query, label in STATES],
        "may_start": viewer.may_anywhere("start"),
        "key": new_key(),
    }
    return render(request, "schedules/page.html", context)


@page("GET", "POST")
def schedule(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show a schedule; a POST (``act``: run, pause, resume, delete) does that and goes on."""
    viewer = viewer_of(request)
    if request.method == "POST":
        return _act(request, viewer, schedule_id)
    row = queries.schedule(viewer, schedule_id)
    context = {
        "row": row,
        "moments": moments_of(row.upcoming, row.zone, zone_of(viewer)),
        "here": zone_of(viewer),
        "runs": queries.runs_of(row),
        "missed": MISSED.get(row.missed, row.missed),
        "overlap": OVERLAP.get(row.overlap, row.overlap),
        "inspect": viewer.may("inspect", row.workflow),
        "keys": {name: new_key() for name in ("run", *SAID)},
    }
    return render(request, "schedules/schedule.html", context)


@page("GET")
def coming(request: HttpRequest) -> HttpResponse:
    """Return the part of the form that says when an expression fires next, while it is typed."""
    return render(request, "schedules/coming.html", coming_of(request.GET, zone_of(viewer_of(request))))


def coming_of(given: Mapping[str, Any], here: str) -> dict[str, object]:
    """Return what ``schedules/coming.html`` shows of ``cron`` and ``zone`` in a form's data."""
    text, zone = (str(given.get(name, "")).strip() for name in ("cron", "zone"))
    try:
        cron: Cron = parse(text, zone)
    except BadCron as error:
        return {"flaw": str(error) if text else ""}
    times = tuple(cron.after(timezone.now(), 5))
    return {"words": cron.words, "moments": moments_of(times, zone, here), "zone": zone, "here": here}


def moments_of(times: tuple[datetime, ...], there: str, here: str) -> list[Moment]:
    """Return times as two clocks show them; a zone that is not known is shown as UTC."""
    return [_moment(at, in_zone(at, there), here) for at in times]


def _moment(at: datetime, there: str, here: str) -> Moment:
    same = in_zone(at, here) == there
    return Moment(at=at, there=there, here="" if same else in_zone(at, here, after=there))


def zone_of(viewer: Viewer) -> str:
    """Return the person's own time zone."""
    return preferences_of([viewer.user.pk]).get(viewer.user.pk, Preferences()).zone


def _act(request: HttpRequest, viewer: Viewer, schedule_id: str) -> HttpResponse:
    act, key = request.POST.get("act", ""), key_of(request)
    try:
        if act == "run":
            run = desk.run_now(viewer, schedule_id, key=key)
            messages.success(request, "Started. This page follows the run as it goes.")
            return redirect("run", run.pk)
        if act == "delete":
            desk.delete_schedule(viewer, schedule_id, key=key)
        elif act in SAID:
            (desk.pause_schedule if act == "pause" else desk.resume_schedule)(viewer, schedule_id, key=key)
    except WrongState as error:
        messages.warning(request, str(error))
    except Invalid as error:
        said = "; ".join(str(problem["msg"]) for problem in error.errors[:3])
        messages.error(request, f"It does not fit any more: {said}. Edit the schedule first.")
    else:
        messages.success(request, SAID.get(act, "Nothing was done."))
    return redirect("schedules" if act == "delete" else _back(request, schedule_id))


def _back(request: HttpRequest, schedule_id: str) -> str:
    """Return where a button of a list was pressed, or the schedule's own page."""
    listed = request.POST.get("from") == "list"
    return reverse("schedules") if listed else reverse("schedule", args=[schedule_id])
