"""Changing a request's deadline, in the person's own time zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.errors import Invalid, NotAllowed
from wfdash.pages.requests.panel import address_params, back_to
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.site.time_zone import zone_of
from wfdash.queries.requests.request import read_request
from wfdash.rendering import render

SHAPE = "%Y-%m-%dT%H:%M"
A_DAY = timedelta(days=1)
"""What the form suggests from now on where there is no due date yet."""


@page("GET", "POST")
def deadline(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show the deadline; a POST changes it. For operators and the assignee."""
    viewer, problem = viewer_of(request), ""
    zone = ZoneInfo(zone_of(viewer))
    if request.method == "POST":
        try:
            extend_deadline(viewer, request_id, _parse_local(request.POST.get("due", ""), zone), key=key_of(request))
            messages.success(request, "Due date changed.")
            return back_to(request_id, address_params(request.GET))
        except Invalid as error:
            problem = str(error.errors[0]["msg"])
    found = read_request(viewer, request_id)
    if not (found.open and (found.operates or found.assignee == viewer.name)):
        raise NotAllowed("Only operators and the assignee can change the due date of an open request")
    shown = (found.due or timezone.now() + A_DAY).astimezone(zone).strftime(SHAPE)
    context = {
        "item": found,
        "verb": "Change" if found.due else "Set",
        "zone": zone.key,
        "value": request.POST.get("due", shown),
        "problem": problem,
        "origin": request.GET.urlencode(),
    }
    return render(request, "requests/request/deadline.html", context, status=422 if problem else 200)


def _parse_local(text: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime.strptime(text, SHAPE).replace(tzinfo=zone)
    except ValueError:
        raise Invalid([{"loc": ["due"], "msg": "Enter a date and time"}]) from None
