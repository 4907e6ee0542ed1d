"""Out of office: absences and their delegates."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.dateparse import parse_date

from wfdash.actions import account as absences
from wfdash.actions.account import set_absence
from wfdash.domain.errors import Invalid
from wfdash.notifications.rendering import render
from wfdash.queries.requests.request import possible_delegates, read_absences
from wfdash.web.pages.site.decorators import page, viewer_of


@page("GET", "POST")
def out_of_office(request: HttpRequest) -> HttpResponse:
    """Show this person's absences and those they are a delegate in; a POST creates one."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        since, until, problems = read_days(request)
        if since and until:
            try:
                absence = set_absence(viewer, request.POST.get("delegate", "").strip(), since, until)
                messages.success(request, f"Out of office set. {absence.delegate.get_username()} can decide for you.")
                return redirect("wfdash:out-of-office")
            except Invalid as error:
                problems = error.by_field
    mine, others = read_absences(viewer)
    context = {
        "mine": mine,
        "others": others,
        "names": possible_delegates(viewer),
        "typed": request.POST,
        "problems": problems,
        "today": timezone.localdate().isoformat(),
    }
    return render(request, "account/settings/out_of_office.html", context, status=422 if problems else 200)


@page("POST")
def end_absence(request: HttpRequest, absence_id: int) -> HttpResponse:
    """End an absence."""
    absences.end_absence(viewer_of(request), absence_id)
    messages.success(request, "Out of office ended.")
    return redirect("wfdash:out-of-office")


def read_days(request: HttpRequest) -> tuple[datetime | None, datetime | None, dict[str, str]]:
    """Return the first and the last day, and errors by field; the last one counts whole. Today starts now."""
    first, problem = _read_day(request, "since")
    last, second = _read_day(request, "until")
    problems = {name: words for name, words in (("since", problem), ("until", second)) if words}
    now = timezone.now()
    since = first and (now if first.date() == timezone.localdate() else first)
    return since, last and last + timedelta(days=1), problems


def _read_day(request: HttpRequest, name: str) -> tuple[datetime | None, str]:
    try:
        day = parse_date(request.POST.get(name, ""))
    except ValueError:
        day = None
    if day is None:
        return None, "Enter a date, such as 2026-12-24"
    return datetime.combine(day, time(), tzinfo=timezone.get_current_timezone()), ""
