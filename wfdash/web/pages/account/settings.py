"""Settings of one person, the notifications they get, when they are away, and the browsers they get push in."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any

from django.conf import settings as conf
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.dateparse import parse_date

from checkpoints.models import PushSubscription
from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.actions import account
from wfdash.actions import account as absences
from wfdash.actions import account as actions
from wfdash.actions.account import (
    change_view,
    delete_view,
    dismiss_getting_started,
    read_notices,
    set_absence,
    set_preferences,
)
from wfdash.actions.requests import chat
from wfdash.domain.cron import zones
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.notifications.preferences import (
    APPRISE,
    BROWSER,
    DIGESTS,
    KINDS,
    MAIL,
    PERSONAL,
    PUSH,
    SLACK,
    Preferences,
    text_of,
)
from wfdash.notifications.push import REMEDY, is_installed, public_key
from wfdash.notifications.rendering import render
from wfdash.notifications.write import preferences_of, reachable
from wfdash.queries import account as queries
from wfdash.queries.account import push_browsers, read_getting_started, read_view, read_views
from wfdash.queries.requests.request import possible_delegates, read_absences
from wfdash.web.pages.site.decorators import (
    browser_zone,
    form_page,
    get_page,
    keep_zone,
    post_page,
    show_once,
    shown_once,
    viewer_of,
    zone_of,
)
from wfdash.web.pages.site.list_page import address_in, counted_views, open_view
from wfdash.web.pages.ui.fragments import respond

LABELS = {BROWSER: "In app", MAIL: "E-mail", PUSH: "Push", APPRISE: "Chat", SLACK: "Slack"}


@frozen
class ChannelSetting:
    """A checkbox: one kind of notification on one channel."""

    channel: str
    label: str
    on: bool


@form_page
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
        "slack": conf.WFDASH_SLACK_TOKEN and {"on": reachable(viewer.user, SLACK), **shown_once(request)},
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
        "digested": " and ".join(LABELS[one] for one in (MAIL, SLACK) if one in channels),
    }


def _channel_setting(wishes: Preferences, typed: Mapping[str, Any], kind: str, channel: str) -> ChannelSetting:
    on = bool(typed.get(f"{kind}.{channel}")) if typed else wishes.wants(kind, channel)
    return ChannelSetting(channel=channel, label=f"{KINDS[kind].label}: {LABELS[channel]}", on=on)


@form_page
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


@post_page
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


@get_page
def counts(request: HttpRequest) -> HttpResponse:
    """Return the links to saved views of a list (``page``) with how many rows each has; ``view`` is the open one."""
    viewer, name = viewer_of(request), "runs" if request.GET.get("page") == "runs" else "inbox"
    views = counted_views(viewer, name, read_views(viewer, name))
    current = next((view for view in views if view.id == request.GET.get("view")), None)
    context = {"views": views, "current_view": current, "page": name, "counted": True}
    return render(request, "components/list/view_links.html", context)


@form_page
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


MENU_NOTIFICATIONS, MOST_NOTIFICATIONS = 8, 100
FRAGMENTS = {"menu": "account/notifications/menu_items.html"}


@form_page
def notifications(request: HttpRequest) -> HttpResponse:
    """List notifications, newest first; a POST marks all as read. ``?fragment=menu``: the newest few, for the bar."""
    viewer = viewer_of(request)
    if request.method == "POST":
        read_notices(viewer)
        return redirect("wfdash:notifications")
    menu = request.GET.get("fragment") == "menu"
    most = MENU_NOTIFICATIONS if menu else MOST_NOTIFICATIONS
    shown = queries.notices(viewer, before=request.GET.get("before", "")[:36], limit=most)
    context = {
        "page": shown,
        "unread": queries.count_unread(viewer),
        "quiet": preferences_of([viewer.user.pk]).get(viewer.user.pk, Preferences()).is_quiet(timezone.now()),
    }
    return respond(request, "account/notifications/page.html", context, FRAGMENTS)


@get_page
def notification(request: HttpRequest, notice_id: str) -> HttpResponse:
    """Mark a notification as read and redirect to its subject."""
    viewer = viewer_of(request)
    found = queries.notice(viewer, notice_id)
    if found is None:
        raise NotFound("Notification not found")
    read_notices(viewer, [found.id])
    return redirect("wfdash:request", found.request) if found.request else redirect(found.page)


@form_page
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


@post_page
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


log = logging.getLogger(__name__)
NAMES = {
    "Edg": "Edge",
    "OPR": "Opera",
    "SamsungBrowser": "Samsung Internet",
    "Firefox": "Firefox",
    "FxiOS": "Firefox",
    "CriOS": "Chrome",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


@frozen
class PushSettings:
    """What the settings page shows of push notifications. ``key``: what a browser subscribes with."""

    installed: bool
    key: str
    """Empty where there is none, or none that can be used: the log says why."""
    browsers: list[PushSubscription]
    remedy: str = REMEDY


def push_settings(viewer: Viewer) -> PushSettings:
    """Return a person's browsers, and whether there can be more."""
    installed = is_installed()
    return PushSettings(installed=installed, key=_key() if installed else "", browsers=push_browsers(viewer))


def _key() -> str:
    try:
        return public_key()
    except (OSError, ValueError) as error:
        log.warning("There are no push notifications: %s", error)
        return ""


@post_page
def push(request: HttpRequest) -> HttpResponse:
    """Subscribe the browser that asks."""
    given = {name: request.POST.get(name, "") for name in ("endpoint", "p256dh", "auth")}
    try:
        actions.subscribe(viewer_of(request), **given, name=browser_name(request.headers.get("user-agent", "")))
    except Invalid as error:
        return JsonResponse({"error": ". ".join(str(problem["msg"]) for problem in error.errors)}, status=422)
    messages.success(request, "Push notifications are on in this browser.")
    return JsonResponse({}, status=201)


@post_page
def push_browser(request: HttpRequest, browser_id: str) -> HttpResponse:
    """Remove one of the person's browsers, or send it a test."""
    if request.POST.get("act") == "test":
        actions.try_push(viewer_of(request), browser_id)
        messages.info(request, "Test sent. It arrives within a few seconds.")
    else:
        actions.unsubscribe(viewer_of(request), browser_id)
        messages.success(request, "Push notifications are off in that browser.")
    return redirect("wfdash:settings")


@post_page
def slack(request: HttpRequest) -> HttpResponse:
    """Begin to connect the person's account at Slack, with a code that is shown once, or disconnect it."""
    viewer = viewer_of(request)
    if request.POST.get("act") == "connect":
        return show_once(request, {"code": chat.begin_connection(viewer)}, "wfdash:settings")
    chat.disconnect(viewer)
    messages.success(request, "Slack is disconnected.")
    return redirect("wfdash:settings")


def browser_name(agent: str) -> str:
    """Return what a person calls a browser, ``Chrome on Android``, from what it says of itself."""
    name = next((name for part, name in NAMES.items() if f"{part}/" in agent), "Browser")
    system = next((system for part, system in SYSTEMS.items() if part in agent), "")
    return f"{name} on {system}" if system else name
