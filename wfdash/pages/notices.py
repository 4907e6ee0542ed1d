"""What a person was told: the list, the menu in the bar, and the way from a notice to what it is about."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from wfdash.desk.preferences import read_notices
from wfdash.desk.tell import preferences_of
from wfdash.errors import NotFound
from wfdash.notices.preferences import Preferences
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import respond
from wfdash.queries import notices as told

MENU = 8
FRAGMENTS = {"menu": "notices/menu_items.html"}


@page("GET", "POST")
def notices(request: HttpRequest) -> HttpResponse:
    """List notices, newest first; a POST marks all as read. ``?fragment=menu``: the newest few, for the bar."""
    viewer = viewer_of(request)
    if request.method == "POST":
        read_notices(viewer)
        return redirect("notices")
    menu = request.GET.get("fragment") == "menu"
    shown = told.notices(viewer, before=request.GET.get("before", "")[:36], limit=MENU if menu else 30)
    context = {
        "page": shown,
        "unread": told.count_unread(viewer),
        "quiet": preferences_of([viewer.user.pk]).get(viewer.user.pk, Preferences()).is_quiet(timezone.now()),
    }
    return respond(request, "notices/page.html", context, FRAGMENTS)


@page("GET")
def notice(request: HttpRequest, notice_id: str) -> HttpResponse:
    """Go to what a notice is about; it is read by that."""
    viewer = viewer_of(request)
    found = told.notice(viewer, notice_id)
    if found is None:
        raise NotFound("There is no such notice")
    read_notices(viewer, [found.id])
    return redirect("request", found.request) if found.request else redirect("notices")
