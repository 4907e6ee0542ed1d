"""Pages of webhooks."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from threading import Thread
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from checkpoints.models import IncomingHook
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.hooks import incoming as actions
from wfdash.actions.hooks import webhooks
from wfdash.actions.hooks.incoming import IncomingPlan
from wfdash.actions.requests import chat
from wfdash.actions.runs.lifecycle import checked_input
from wfdash.domain.errors import REFUSALS, Invalid, NotFound, WrongState
from wfdash.domain.hooks import SCHEMES, mapped, suggested, template_problems
from wfdash.engines import catalog
from wfdash.notifications.preferences import WEBHOOK_KINDS, type_of
from wfdash.notifications.rendering import absolute, render
from wfdash.notifications.slack import payload_of
from wfdash.queries import hooks as queries
from wfdash.queries.account import service_accounts
from wfdash.web.pages.site.decorators import form_page, get_page, key_of, show_once, shown_once, viewer_of
from wfdash.web.problems import problem_response

OURS, MINE, PROGRAM = "ours", "mine", "as:"
"""To whom a webhook belongs: the installation, the viewer, or the service account whose name follows."""


@form_page
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
        "local": settings.WFDASH_HOOKS_LOCAL,
        "inside": settings.WFDASH_HOOKS_HOSTS,
    }
    return render(request, "hooks/webhooks.html", context, status=422 if problems else 200)


@form_page
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
        webhooks.resend(viewer, webhook_id, request.POST.get("delivery", ""))
        messages.info(request, "Sending it again, with the same id.")
    elif act == "resend-failed":
        try:
            days = min(max(float(request.POST.get("days", "1")), 0.01), 90.0)
        except ValueError:
            days = 1.0
        count = webhooks.resend_failed(viewer, webhook_id, since=timezone.now() - timedelta(days=days))
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


# The address at which an incoming webhook receives: for programs, without a session, answered as the API does.


@csrf_exempt
@require_POST
def receive_hook(request: HttpRequest, hook_id: str) -> HttpResponse:
    """Act on a delivery: 202 with the run, 200 if it came before; a problem otherwise."""
    body = request.read(actions.LARGEST_DELIVERY + 1)
    if len(body) > actions.LARGEST_DELIVERY:
        return problem_response(request, REFUSALS[413], f"A delivery has at most {actions.LARGEST_DELIVERY:,} bytes")
    done = actions.receive(hook_id, dict(request.headers.items()), body)
    given = {"id": done.id, "outcome": done.outcome, "run": done.run}
    return JsonResponse(given, status=200 if done.outcome == "duplicate" else 202)


@csrf_exempt
@require_POST
def receive_slack(request: HttpRequest) -> HttpResponse:
    """Act on what someone did in Slack, as Slack's signature says. Slack is called after it has its reply."""
    body = request.read(actions.LARGEST_DELIVERY + 1)
    payload = payload_of(body, dict(request.headers.items())) if len(body) <= actions.LARGEST_DELIVERY else None
    if payload is None:
        return problem_response(request, REFUSALS[401], "Not signed by Slack within five minutes")
    said, then = chat.hear(payload)
    Thread(target=then, name="wfdash-slack").start()
    return JsonResponse(said) if said else HttpResponse()


# Incoming webhooks: the list, the form with a preview of its mapping, and one with the log of what came.

FIELDS = ("name", "scheme", "header", "key_at", "signal", "run_at")


@get_page
def incoming_webhooks(request: HttpRequest) -> HttpResponse:
    """List the incoming webhooks that a person manages."""
    viewer = viewer_of(request)
    context = {"rows": queries.incoming_hooks(viewer), "here": "incoming"}
    return render(request, "hooks/incoming_webhooks.html", context | {"workflows": _startable(viewer)})


@form_page
def new_incoming(request: HttpRequest) -> HttpResponse:
    """Show the form for ``workflow``, the choice of one without; a POST previews (``act=preview``) or creates."""
    viewer, name = viewer_of(request), request.GET.get("workflow", "").replace("\0", "")
    if not name and request.method != "POST":
        return redirect(f"{reverse('wfdash:incoming-webhooks')}#incoming-workflow")
    if name not in _startable(viewer):
        raise NotFound("No workflow of this name that you can start")
    entry = catalog.get(name)
    typed = _typed(request) if request.method == "POST" else _blank(suggested(entry.description.input_schema))
    context: dict[str, Any] = {"workflow": name, "typed": typed, "programs": service_accounts(viewer)}
    if request.method != "POST" or request.POST.get("act") == "preview":
        return _form(request, viewer, entry, context)
    try:
        plan = _plan(typed, name)
        given = {"secret": typed["secret"], "owner": typed["owner"]}
        made, secret = actions.create_incoming(viewer, plan, **given, key=key_of(request))
    except Invalid as error:
        return _form(request, viewer, entry, context | {"problems": error.by_field})
    return show_once(request, {"secret": secret}, "wfdash:incoming-webhook", made.pk)


@form_page
def edit_incoming(request: HttpRequest, hook_id: str) -> HttpResponse:
    """Show the form of one; a POST previews or saves."""
    viewer = viewer_of(request)
    hook = actions.find_incoming(viewer, hook_id)
    entry = catalog.get(hook.workflow)
    kept = {name: getattr(hook, name) for name in FIELDS} | {"mapping": _pretty(hook.mapping)}
    typed = _typed(request) if request.method == "POST" else kept | {"sample": queries.newest_body(viewer, hook)}
    context: dict[str, Any] = {"hook": hook, "workflow": hook.workflow, "typed": typed}
    if request.method != "POST" or request.POST.get("act") == "preview":
        return _form(request, viewer, entry, context)
    try:
        actions.change_incoming(viewer, hook_id, _plan(typed, hook.workflow))
    except Invalid as error:
        return _form(request, viewer, entry, context | {"problems": error.by_field})
    messages.success(request, "Saved.")
    return redirect("wfdash:incoming-webhook", hook_id)


@form_page
def incoming_webhook(request: HttpRequest, hook_id: str) -> HttpResponse:
    """Show one and what came to it; a POST renews, retires, enables, disables or removes."""
    viewer = viewer_of(request)
    act = request.POST.get("act", "") if request.method == "POST" else ""
    if act == "renew":
        secret = actions.renew_incoming_secret(viewer, hook_id, key=key_of(request))
        return show_once(request, {"secret": secret}, "wfdash:incoming-webhook", hook_id)
    if act == "remove":
        actions.remove_incoming(viewer, hook_id)
        messages.success(request, "Incoming webhook removed.")
        return redirect("wfdash:incoming-webhooks")
    if act == "retire":
        actions.retire_incoming_secret(viewer, hook_id)
        messages.success(request, "Old secret revoked.")
    elif act in {"rest", "wake"}:
        actions.switch_incoming(viewer, hook_id, active=act == "wake")
    if act:
        return redirect("wfdash:incoming-webhook", hook_id)
    return _incoming(request, viewer, actions.find_incoming(viewer, hook_id))


def _incoming(request: HttpRequest, viewer: Viewer, hook: IncomingHook) -> HttpResponse:
    outcome = request.GET.get("outcome", "")
    address, scheme = reverse("wfdash:incoming-webhook", args=[hook.pk]), SCHEMES[hook.scheme]
    named = [("", "All"), *((name, name.capitalize()) for name in queries.OUTCOMES)]
    context = {
        "hook": hook,
        "secret": shown_once(request).get("secret", ""),
        "two": len(hook.secret.split()) > 1,
        "address": absolute(reverse("wfdash:receive-hook", args=[hook.pk])),
        "scheme": scheme,
        "header": hook.header or scheme.header,
        "mapping": _pretty(hook.mapping),
        "received": queries.received(viewer, hook, outcome=outcome, before=request.GET.get("before", "")),
        "outcome": outcome,
        "outcomes": [
            (label, f"{address}?outcome={name}" if name else address, name == outcome) for name, label in named
        ],
        "may_inspect": viewer.may("inspect", hook.workflow),
        "here": "incoming",
    }
    return render(request, "hooks/incoming_webhook.html", context)


def _form(request: HttpRequest, viewer: Viewer, entry: catalog.Entry, context: dict[str, Any]) -> HttpResponse:
    shown = {"schemes": SCHEMES.values(), "schema": _pretty(entry.description.input_schema), "here": "incoming"}
    preview = _preview(entry, context["typed"]) if request.method == "POST" else {}
    status = 422 if context.get("problems") else 200
    return render(request, "hooks/incoming_webhook_form.html", shown | preview | context, status=status)


def _preview(entry: catalog.Entry, typed: dict[str, str]) -> dict[str, Any]:
    """Return the message that the sample would become, with what is wrong with it."""
    if not typed["sample"].strip():
        return {}
    try:
        sample, template = json.loads(typed["sample"]), json.loads(typed["mapping"])
    except (ValueError, RecursionError):
        return {"flaws": ["The sample and the mapping must be JSON"]}
    if wrong := template_problems(template):
        return {"flaws": wrong}
    message, lacking = mapped(template, sample)
    flaws = [f"{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in lacking]
    if not flaws and not typed["signal"]:
        try:
            message = checked_input(entry, message)
        except Invalid as error:
            flaws = [f"{'/'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors]
    return {"message": _pretty(message), "flaws": flaws, "previewed": True}


def _plan(typed: dict[str, str], workflow: str) -> IncomingPlan:
    try:
        mapping = json.loads(typed["mapping"])
    except (ValueError, RecursionError) as error:
        raise Invalid.at("mapping", f"This is not JSON: {error}") from None
    return IncomingPlan(workflow=workflow, mapping=mapping, **{name: typed[name] for name in FIELDS})


def _typed(request: HttpRequest) -> dict[str, str]:
    names = (*FIELDS, "mapping", "sample", "secret", "owner")
    return {name: request.POST.get(name, "").replace("\0", "").strip() for name in names}


def _blank(template: Any) -> dict[str, str]:
    plan = IncomingPlan(name="", workflow="", mapping=None)
    return {name: str(asdict(plan)[name]) for name in FIELDS} | {"mapping": _pretty(template), "sample": ""}


def _startable(viewer: Viewer) -> list[str]:
    return sorted(entry.name for entry in catalog.entries() if viewer.may("start", entry.name))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
