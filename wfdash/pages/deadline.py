"""Moving a request's deadline, in the person's own time zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from wfdash import queries
from wfdash.desk.tell import preferences_of
from wfdash.desk.timers import extend_deadline
from wfdash.errors import Invalid
from wfdash.notices.preferences import Preferences
from wfdash.pages.door import key_of, page, viewer_of
from wfdash.pages.panel import back_to, place_of

SHAPE = "%Y-%m-%dT%H:%M"


@page("GET", "POST")
def deadline(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show when it is due; a POST moves that. Operators, and whom it is assigned to."""
    viewer, problem = viewer_of(request), ""
    zone = ZoneInfo(preferences_of([viewer.user.pk]).get(viewer.user.pk, Preferences()).zone)
    if request.method == "POST":
        try:
            extend_deadline(viewer, request_id, _moment(request.POST.get("due", ""), zone), key=key_of(request))
            messages.success(request, "The deadline is moved, and what hangs on it.")
            return back_to(request_id, place_of(request.GET))
        except Invalid as error:
            problem = str(error.errors[0]["msg"])
    found = queries.request(viewer, request_id)
    shown = (found.due or timezone.now()).astimezone(zone).strftime(SHAPE)
    context = {
        "item": found,
        "zone": zone.key,
        "value": request.POST.get("due", shown),
        "problem": problem,
        "place": request.GET.urlencode(),
    }
    return render(request, "request/deadline.html", context, status=422 if problem else 200)


def _moment(text: str, zone: ZoneInfo) -> datetime:
    try:
        return datetime.strptime(text, SHAPE).replace(tzinfo=zone)
    except ValueError:
        raise Invalid([{"loc": ["due"], "msg": "Give a day and a time"}]) from None
