"""Settings of one person: notifications, time zone, the first steps that they close, the views that they saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings as conf
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from wfdash.access.viewer import Viewer
from wfdash.actions import account
from wfdash.actions.account import change_view, delete_view, dismiss_getting_started, set_preferences
from wfdash.domain.cron import zones
from wfdash.domain.errors import Invalid, NotAllowed
from wfdash.notifications.preferences import (
    APPRISE,
    BROWSER,
    DIGESTS,
    KINDS,
    MAIL,
    PERSONAL,
    PUSH,
    Preferences,
    text_of,
)
from wfdash.notifications.rendering import render
from wfdash.notifications.write import preferences_of, reachable
from wfdash.queries.account import push_browsers, read_getting_started, read_view, read_views
from wfdash.web.pages.account.push import push_settings
from wfdash.web.pages.site.decorators import browser_zone, keep_zone, page, viewer_of, zone_of
from wfdash.web.pages.site.list_page import address_in, counted_views, open_view

LABELS = {BROWSER: "In app", MAIL: "E-mail", PUSH: "Push", APPRISE: "Chat"}


@dataclass(frozen=True, kw_only=True)
class ChannelSetting:
    """A checkbox: one kind of notification on one channel."""

    channel: str
    label: str
    on: bool


@page("GET", "POST")
def settings(request: HttpRequest) -> HttpResponse:
    """Show a person's notification settings; a POST saves them."""
    viewer = viewer_of(request)
    typed: Mapping[str, Any] = {}
    problems: dict[str, str] = {}
    wishes = preferences_of([viewer.user.pk]).get(viewer.user.pk, Preferences())
    if request.method == "POST":
        typed = request.POST
        try:
            set_preferences(viewer, **_posted_settings(request, _channels(viewer), wishes))
            keep_zone(request, viewer.user.pk)
            messages.success(request, "Settings saved.")
            return redirect("wfdash:settings")
        except Invalid as error:
            problems = error.by_field
    context = _form_context(viewer, wishes, typed) | {
        "problems": problems,
        "here": "settings",
        "push": push_settings(viewer),
    }
    # Offer the browser's zone where the form holds another one; ``taken``: fill it in.
    browser = browser_zone(request)
    if (request.GET.get("zone") == "browser") and browser:
        context["values"]["zone"] = browser
    context["browser_zone"] = "" if browser == context["values"]["zone"] else browser
    return render(request, "account/settings/page.html", context, status=422 if problems else 200)


def _channels(viewer: Viewer) -> list[str]:
    """Return the channels by which this person can be reached."""
    here = [channel for channel in PERSONAL if reachable(viewer.user, channel)]
    return here if push_browsers(viewer) else [channel for channel in here if channel != PUSH]


def _posted_settings(request: HttpRequest, channels: list[str], before: Preferences) -> dict[str, Any]:
    """Return the form's settings. Those of channels that it does not show are kept."""
    post = request.POST
    chosen = {
        kind: [channel for channel in channels if post.get(f"{kind}.{channel}")]
        + [channel for channel in PERSONAL if channel not in channels and before.wants(kind, channel)]
        for kind in KINDS
    }
    quiet = [post.get("quiet_from", ""), post.get("quiet_to", "")] if post.get("quiet") else []
    return {
        "channels": chosen,
        "zone": post.get("zone", "").strip(),
        "quiet": quiet,
        "digest": post.get("digest", ""),
        "digest_at": post.get("digest_at", "") or "08:00",
    }


def _form_context(viewer: Viewer, wishes: Preferences, typed: Mapping[str, Any]) -> dict[str, Any]:
    channels = _channels(viewer)
    quiet = [text_of(moment) for moment in wishes.quiet] if wishes.quiet else ["22:00", "07:00"]
    values = {
        "zone": zone_of(viewer),
        "quiet": bool(wishes.quiet),
        "quiet_from": quiet[0],
        "quiet_to": quiet[1],
        "digest": wishes.digest,
        "digest_at": text_of(wishes.digest_at),
    }
    if typed:
        values = {name: typed.get(name, "") for name in values}
    return {
        "channels": [(channel, LABELS[channel]) for channel in channels],
        "kinds": [
            (kind, [_channel_setting(wishes, typed, kind.name, channel) for channel in channels])
            for kind in KINDS.values()
        ],
        "values": values,
        "digests": DIGESTS.items(),
        "zones": zones(),
        "mail_on": bool(conf.WFDASH_MAIL),
        "mailed": MAIL in channels,
    }


def _channel_setting(wishes: Preferences, typed: Mapping[str, Any], kind: str, channel: str) -> ChannelSetting:
    on = bool(typed.get(f"{kind}.{channel}")) if typed else wishes.wants(kind, channel)
    return ChannelSetting(channel=channel, label=f"{KINDS[kind].label}: {LABELS[channel]}", on=on)


@page("GET", "POST")
def getting_started(request: HttpRequest) -> HttpResponse:
    """Show what an installation still lacks; a POST stops showing it in empty lists."""
    viewer = viewer_of(request)
    found = read_getting_started(viewer)
    if found is None:
        raise NotAllowed("Only admins of every workflow set up the installation")
    if request.method == "POST":
        dismiss_getting_started(viewer)
        return redirect("wfdash:inbox")
    return render(request, "account/getting_started/page.html", {"steps": found})


@page("POST")
def save_view(request: HttpRequest) -> HttpResponse:
    """Save the current filter (``query``) of a list (``page``) under a name."""
    name = "runs" if request.POST.get("page") == "runs" else "inbox"
    place = address_in(name, request.POST.get("query", ""))
    try:
        given, shared = request.POST.get("name", ""), "shared" in request.POST
        view = account.save_view(viewer_of(request), given, place.saved, page=name, shared=shared)
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.url())
    messages.success(request, f"Saved: “{view.name}”.")
    return redirect("wfdash:view", view.pk)


@page("GET")
def counts(request: HttpRequest) -> HttpResponse:
    """Return the links to saved views of a list (``page``) with how many rows each has; ``view`` is the open one."""
    viewer, name = viewer_of(request), "runs" if request.GET.get("page") == "runs" else "inbox"
    views = counted_views(viewer, name, read_views(viewer, name))
    current = next((view for view in views if view.id == request.GET.get("view")), None)
    context = {"views": views, "current_view": current, "page": name, "counted": True}
    return render(request, "components/list/view_links.html", context)


@page("GET", "POST")
def view(request: HttpRequest, view_id: str) -> HttpResponse:
    """Open a view; a POST renames it, shares or unshares it, replaces its filter, or deletes it."""
    viewer = viewer_of(request)
    shows = read_view(viewer, view_id).page
    if request.method != "POST":
        return open_view(viewer, view_id)
    place = address_in(shows, request.POST.get("query", ""))
    try:
        if "delete" in request.POST:
            delete_view(viewer, view_id)
            messages.success(request, "View deleted.")
            return redirect(place.url())
        query = place.saved if "now" in request.POST else None
        name = request.POST.get("name", "")
        change_view(viewer, view_id, name=name, query=query, shared="shared" in request.POST)
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.at(view=view_id).url())
    return redirect("wfdash:view", view_id)
