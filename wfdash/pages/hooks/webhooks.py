"""Webhooks: the list with the form that adds one, and a webhook with its deliveries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings as conf
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from wfdash import catalog
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.hooks import deliveries, webhooks
from wfdash.errors import Invalid, WrongState
from wfdash.notifications.kinds import WEBHOOK_KINDS, type_of
from wfdash.pages.site.decorators import key_of, page, show_once, shown_once, viewer_of
from wfdash.queries import hooks as queries
from wfdash.queries.account import service_accounts
from wfdash.rendering import render

OURS, MINE, PROGRAM = "ours", "mine", "as:"
"""To whom a webhook belongs: the installation, the viewer, or the service account whose name follows."""


@page("GET", "POST")
def webhook_list(request: HttpRequest) -> HttpResponse:
    """List a person's webhooks, an admin's those of everyone; a POST creates one, and shows its secret only once."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            made, secret = webhooks.create_webhook(viewer, **_posted(request, viewer), key=key_of(request))
            return show_once(request, {"secret": secret}, "wfdash:webhook", made.pk)
        except Invalid as error:
            problems = error.by_field
    context = {
        "rows": queries.webhooks(viewer),
        "kinds": [(kind, type_of(kind.name)) for kind in WEBHOOK_KINDS.values()],
        "chosen": request.POST.getlist("kinds"),
        "workflows": sorted(entry.name for entry in catalog.entries() if viewer.may("see", entry.name)),
        "typed": request.POST,
        "with_values": "values" in request.POST,
        "problems": problems,
        "here": "webhooks",
        "all": viewer.may("admin", EVERY),
        "programs": [(name, PROGRAM + name) for name in service_accounts(viewer)],
        "inspects": viewer.may_anywhere("inspect"),
        "local": conf.WFDASH_HOOKS_LOCAL,
        "inside": conf.WFDASH_HOOKS_HOSTS,
    }
    return render(request, "hooks/webhooks.html", context, status=422 if problems else 200)


@page("GET", "POST")
def webhook(request: HttpRequest, webhook_id: str) -> HttpResponse:
    """Show a webhook and its deliveries; a POST tests, resends, renews, retires, enables, disables or removes."""
    viewer = viewer_of(request)
    act = request.POST.get("act", "") if request.method == "POST" else ""
    if act == "renew":
        secret = webhooks.renew_secret(viewer, webhook_id, key=key_of(request))
        return show_once(request, {"secret": secret}, "wfdash:webhook", webhook_id)
    if not act:
        return _webhook(request, viewer, webhook_id)
    try:
        return _perform(request, viewer, webhook_id, act)
    except WrongState as error:
        messages.warning(request, f"{error}.")
    return redirect("wfdash:webhook", webhook_id)


def _perform(request: HttpRequest, viewer: Viewer, webhook_id: str, act: str) -> HttpResponse:
    if act == "remove":
        webhooks.remove_webhook(viewer, webhook_id)
        messages.success(request, "Webhook removed.")
        return redirect("wfdash:webhooks")
    if act == "test":
        webhooks.try_webhook(viewer, webhook_id)
        messages.info(request, "Test sent. See the deliveries below.")
    elif act == "resend":
        deliveries.resend(viewer, webhook_id, request.POST.get("delivery", ""))
        messages.info(request, "Sending it again, with the same id.")
    elif act == "resend-failed":
        count = deliveries.resend_failed(viewer, webhook_id, since=timezone.now() - timedelta(days=_days(request)))
        messages.info(request, f"Sending {count} deliver{'y' if count == 1 else 'ies'} again.")
    elif act == "retire":
        webhooks.retire_secret(viewer, webhook_id)
        messages.success(request, "Old secret revoked.")
    elif act in {"rest", "wake"}:
        webhooks.switch_webhook(viewer, webhook_id, active=act == "wake")
    return redirect("wfdash:webhook", webhook_id)


def _webhook(request: HttpRequest, viewer: Viewer, webhook_id: str) -> HttpResponse:
    found = webhooks.find_webhook(viewer, webhook_id)
    state = request.GET.get("state", "")
    context = {
        "hook": found,
        "types": [type_of(kind) for kind in found.kinds],
        "secret": shown_once(request).get("secret", ""),
        "two": len(found.secret.split()) > 1,
        "deliveries": queries.deliveries(found, state=state, before=request.GET.get("before", "")),
        "state": state,
        "states": _states(webhook_id, state),
        "resends": found.active or found.run_id is not None,
        "lost": queries.count_given_up(found, timezone.now() - timedelta(days=1)),
        "here": "webhooks",
    }
    return render(request, "hooks/webhook.html", context)


def _states(webhook_id: str, chosen: str) -> list[tuple[str, str, bool]]:
    """Return the filters of deliveries: label, address, whether it is the chosen one."""
    address = reverse("wfdash:webhook", args=[webhook_id])
    named = [("", "All"), *((name, name.replace("-", " ").capitalize()) for name in queries.STATES)]
    return [(label, f"{address}?state={name}" if name else address, name == chosen) for name, label in named]


def _posted(request: HttpRequest, viewer: Viewer) -> dict[str, Any]:
    post = request.POST
    whose = post.get("whose", OURS) if viewer.may("admin", EVERY) else MINE
    return {
        "name": post.get("name", ""),
        "url": post.get("url", ""),
        "workflow": post.get("workflow", "") or EVERY,
        "kinds": post.getlist("kinds"),
        "values": bool(post.get("values")),
        "owner": {OURS: "", MINE: viewer.name}.get(whose, whose.removeprefix(PROGRAM)),
    }


def _days(request: HttpRequest) -> float:
    try:
        return min(max(float(request.POST.get("days", "1")), 0.01), 90.0)
    except ValueError:
        return 1.0
