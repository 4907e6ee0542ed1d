"""Push notifications on the settings page: subscribe this browser, try or remove one."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from checkpoints.models import PushSubscription
from wfdash.access.viewer import Viewer
from wfdash.actions import account as actions
from wfdash.domain.errors import Invalid
from wfdash.notifications.push import REMEDY, is_installed, public_key
from wfdash.queries.account import push_browsers
from wfdash.web.pages.site.decorators import page, viewer_of

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


@dataclass(frozen=True, kw_only=True)
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


@page("POST")
def push(request: HttpRequest) -> HttpResponse:
    """Subscribe the browser that asks."""
    given = {name: request.POST.get(name, "") for name in ("endpoint", "p256dh", "auth")}
    try:
        actions.subscribe(viewer_of(request), **given, name=browser_name(request.headers.get("user-agent", "")))
    except Invalid as error:
        return JsonResponse({"error": ". ".join(str(problem["msg"]) for problem in error.errors)}, status=422)
    messages.success(request, "Push notifications are on in this browser.")
    return JsonResponse({}, status=201)


@page("POST")
def push_browser(request: HttpRequest, browser_id: str) -> HttpResponse:
    """Remove one of the person's browsers, or send it a test."""
    if request.POST.get("act") == "test":
        actions.try_push(viewer_of(request), browser_id)
        messages.info(request, "Test sent. It arrives within a few seconds.")
    else:
        actions.unsubscribe(viewer_of(request), browser_id)
        messages.success(request, "Push notifications are off in that browser.")
    return redirect("wfdash:settings")


def browser_name(agent: str) -> str:
    """Return what a person calls a browser, ``Chrome on Android``, from what it says of itself."""
    name = next((name for part, name in NAMES.items() if f"{part}/" in agent), "Browser")
    system = next((system for part, system in SYSTEMS.items() if part in agent), "")
    return f"{name} on {system}" if system else name
