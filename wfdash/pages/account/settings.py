"""Notification settings, and the webhooks that administrators manage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings as conf
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from wfdash import catalog
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.account import webhooks as hooks
from wfdash.actions.account.preferences import set_preferences
from wfdash.errors import Invalid, NotAllowed
from wfdash.notifications.kinds import APPRISE, BROWSER, KINDS, MAIL, PERSONAL, PUSH
from wfdash.notifications.preferences import DIGESTS, Preferences, text_of
from wfdash.notifications.write import preferences_of, reachable
from wfdash.pages.account.push import push_settings
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.time_zone import browser_zone, keep_zone, zone_of
from wfdash.queries.account import notifications as queries
from wfdash.queries.account.notifications import push_browsers

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
            return redirect("settings")
        except Invalid as error:
            problems = error.by_field
    context = _form_context(viewer, wishes, typed) | {
        "problems": problems,
        "here": "settings",
        "push": push_settings(viewer),
    }
    _offer_zone(context, browser_zone(request), taken=request.GET.get("zone") == "browser")
    return render(request, "account/settings/page.html", context, status=422 if problems else 200)


@page("GET", "POST")
def webhooks(request: HttpRequest) -> HttpResponse:
    """List webhooks; a POST creates one, and shows its secret only this once."""
    viewer = _admin(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            webhook, secret = hooks.create_webhook(
                viewer,
                name=request.POST.get("name", ""),
                url=request.POST.get("url", ""),
                workflow=request.POST.get("workflow", "") or EVERY,
                kinds=request.POST.getlist("kinds"),
            )
            return _webhook(request, viewer, webhook.pk, secret=secret, status=201)
        except Invalid as error:
            problems = error.by_field
    context = {
        "rows": queries.webhooks(),
        "kinds": KINDS.values(),
        "chosen": request.POST.getlist("kinds"),
        "workflows": sorted(entry.name for entry in catalog.entries()),
        "typed": request.POST,
        "problems": problems,
        "admin": True,
        "here": "webhooks",
        "local": conf.WFDASH_HOOKS_LOCAL,
    }
    return render(request, "account/settings/webhooks.html", context, status=422 if problems else 200)


@page("GET", "POST")
def webhook(request: HttpRequest, webhook_id: str) -> HttpResponse:
    """Show a webhook and its last deliveries; a POST tests, renews, retires, enables, disables or removes."""
    viewer = _admin(request)
    act = request.POST.get("act", "") if request.method == "POST" else ""
    if act == "renew":
        return _webhook(request, viewer, webhook_id, secret=hooks.renew_secret(viewer, webhook_id))
    if not act:
        return _webhook(request, viewer, webhook_id)
    if act == "remove":
        hooks.remove_webhook(viewer, webhook_id)
        messages.success(request, "Webhook removed.")
        return redirect("webhooks")
    if act == "test":
        hooks.try_webhook(viewer, webhook_id)
        messages.info(request, "Test sent. See the deliveries below.")
    elif act == "retire":
        hooks.retire_secret(viewer, webhook_id)
        messages.success(request, "Old secret revoked.")
    elif act in {"rest", "wake"}:
        hooks.switch_webhook(viewer, webhook_id, active=act == "wake")
    return redirect("webhook", webhook_id)


def _webhook(
    request: HttpRequest, viewer: Viewer, webhook_id: str, *, secret: str = "", status: int = 200
) -> HttpResponse:
    found = hooks.find_webhook(viewer, webhook_id)
    context = {
        "hook": found,
        "labels": [kind.label for kind in KINDS.values() if kind.name in found.kinds],
        "kinds": found.kinds,
        "secret": secret,
        "two": len(found.secret.split()) > 1,
        "deliveries": queries.deliveries(found),
        "admin": True,
        "here": "webhooks",
    }
    return render(request, "account/settings/webhook.html", context, status=status)


def _admin(request: HttpRequest) -> Viewer:
    viewer = viewer_of(request)
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of all workflows can manage webhooks")
    return viewer


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


def _offer_zone(context: dict[str, Any], browser: str, *, taken: bool) -> None:
    """Offer the browser's zone where the form holds another one; ``taken``: fill it in."""
    if taken and browser:
        context["values"]["zone"] = browser
    context["browser_zone"] = "" if browser == context["values"]["zone"] else browser


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
        "zones": sorted(available_timezones()),
        "mail_on": bool(conf.WFDASH_MAIL),
        "mailed": MAIL in channels,
        "admin": viewer.may("admin", EVERY),
    }


def _channel_setting(wishes: Preferences, typed: Mapping[str, Any], kind: str, channel: str) -> ChannelSetting:
    on = bool(typed.get(f"{kind}.{channel}")) if typed else wishes.wants(kind, channel)
    return ChannelSetting(channel=channel, label=f"{KINDS[kind].label}: {LABELS[channel]}", on=on)
