"""Notifications: the list, the menu in the bar, and the redirect from one to its subject."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from wfdash.actions.account import read_notices
from wfdash.domain.errors import NotFound
from wfdash.notifications.preferences import Preferences
from wfdash.notifications.write import preferences_of
from wfdash.queries import account as queries
from wfdash.web.pages.site.decorators import page, viewer_of
from wfdash.web.pages.ui.fragments import respond

MENU_NOTIFICATIONS = 8
FRAGMENTS = {"menu": "account/notifications/menu_items.html"}


@page("GET", "POST")
def notifications(request: HttpRequest) -> HttpResponse:
    """List notifications, newest first; a POST marks all as read. ``?fragment=menu``: the newest few, for the bar."""
    viewer = viewer_of(request)
    if request.method == "POST":
        read_notices(viewer)
        return redirect("wfdash:notifications")
    menu = request.GET.get("fragment") == "menu"
    shown = queries.notices(viewer, before=request.GET.get("before", "")[:36], limit=MENU_NOTIFICATIONS if menu else 30)
    context = {
        "page": shown,
        "unread": queries.count_unread(viewer),
        "quiet": preferences_of([viewer.user.pk]).get(viewer.user.pk, Preferences()).is_quiet(timezone.now()),
    }
    return respond(request, "account/notifications/page.html", context, FRAGMENTS)


@page("GET")
def notification(request: HttpRequest, notice_id: str) -> HttpResponse:
    """Mark a notification as read and redirect to its subject."""
    viewer = viewer_of(request)
    found = queries.notice(viewer, notice_id)
    if found is None:
        raise NotFound("Notification not found")
    read_notices(viewer, [found.id])
    return redirect("wfdash:request", found.request) if found.request else redirect(found.page)
