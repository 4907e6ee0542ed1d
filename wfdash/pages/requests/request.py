"""One request: its decision card, and the answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.encoding import escape_uri_path

from checkpoints.models import Reply
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import save_draft
from wfdash.actions.requests.marks import marks_for
from wfdash.errors import AlreadyAnswered, Changed, Invalid, NoLongerOpen, NotAllowed, NotFound
from wfdash.pages.requests.inbox import in_list
from wfdash.pages.requests.panel import address_params, fields_of, live_context, offer_undo, panel, typed_texts
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.ui import card
from wfdash.pages.ui.card.actions import actions_of
from wfdash.pages.ui.commands import Commands, commands
from wfdash.pages.ui.diff import diff_values
from wfdash.pages.ui.event_text import past
from wfdash.pages.ui.fragments import respond
from wfdash.queries.requests.inbox import next_request
from wfdash.queries.requests.request import RequestView, read_request
from wfdash.rendering import render, render_to_string
from wfdash.schemas.sample import sample

__all__ = ["address_params", "panel", "request"]

PAGE = "requests/request/page.html"
FRAGMENTS = {"live": "requests/request/live.html"}


@page("GET", "POST")
def request(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show a request; a POST answers it. 422 and 409 keep what was typed.

    ``tab``, ``q`` and ``sort`` say where in the inbox the person came from, so that the next one opens after it.
    ``override`` is an operator's way to decide instead of those it is addressed to.
    """
    viewer = viewer_of(request)
    posted = request.method == "POST"
    found = read_request(viewer, request_id, marks_for(undo=True) if posted else None)
    override = "override" in request.GET
    if posted:
        return _answer(request, viewer, found, override)
    place, piece = address_params(request.GET), request.GET.get("piece", "")
    if request.GET.get("fragment") == "live":
        context = live_context(found, place, override=override)
    else:
        context = panel(found, place, override=override, piece=piece)
    shown = request.GET.get("seen", "")
    # What the open page shows stays the base of its comparison, however often this part is refreshed.
    context |= {"fragment": "fragment" in request.GET, "seen": shown}
    context["stale"] = found.open and shown not in {"", found.seen}
    if context["decides"] and not override:
        context["answer_commands"] = _answer_commands(request, found)
    return respond(request, PAGE, context, FRAGMENTS)


def _answer_commands(request: HttpRequest, found: RequestView) -> Commands:
    """Return the commands that answer a request, for those who may, with the first of its answers to change."""
    body = {"value": sample(found.answer_schema), "seen": found.seen}
    path = reverse("wfdash:api:answer_request", args=[found.id])
    return commands(request, "answer-commands", "Answer from a program", path, body)


def _answer(request: HttpRequest, viewer: Viewer, found: RequestView, override: bool) -> HttpResponse:
    reading = card.read_answer(found.answer_schema, found.card, request.POST, request.FILES)
    place, seen, piece = address_params(request.GET), request.POST.get("_seen", ""), request.GET.get("piece", "")
    if found.open and seen in {"", found.seen} and (reading.editing or reading.errors):
        context = panel(found, place, reading, override=override, piece=piece)
        return _render_again(request, found, context | _operator_fields(request), 200 if reading.editing else 422)
    try:
        reply = answer_request(
            viewer,
            found.id,
            reading.value,
            verdict=reading.action,
            reason=request.POST.get("_reason", ""),
            seen=seen,
            undo=True,
            via="page",
            page=_rendered_card(found),
            override=override,
            on_behalf_of=request.POST.get("_for", "") if override else "",
            as_text=reading.as_text,
            key=key_of(request),
            found=found.row,
        )
    except Invalid as error:
        context = panel(found, place, reading, error.errors, override=override, piece=piece)
        return _render_again(request, found, context | _operator_fields(request), 422)
    except (AlreadyAnswered, Changed, NoLongerOpen) as error:
        return _conflict(request, viewer, found, reading, error)
    _flash_result(request, viewer, found, reply)
    return offer_undo(request, _next_page(request, viewer, found, place), found.id, reply.settles)


def _render_again(request: HttpRequest, found: RequestView, context: dict[str, Any], status: int) -> HttpResponse:
    """Render the card with what was typed: in the inbox, if the person came from there."""
    if address_params(request.GET):
        return in_list(request, found.id, context, status=status)
    return render(request, PAGE, context, status=status)


def _operator_fields(request: HttpRequest) -> dict[str, str]:
    """Return an operator's fields beside the card: why they decide, and on whose behalf."""
    return {"override_reason": request.POST.get("_reason", ""), "override_for": request.POST.get("_for", "")}


def _conflict(
    request: HttpRequest,
    viewer: Viewer,
    found: RequestView,
    reading: card.PostedAnswer,
    error: AlreadyAnswered | Changed | NoLongerOpen,
) -> HttpResponse:
    """Render why the answer was refused and what changed, with what was typed."""
    now = read_request(viewer, found.id)
    context = panel(now, address_params(request.GET), reading._replace(errors=[]), override="override" in request.GET)
    typed = typed_texts(found, reading.value)
    context |= {
        "conflict": str(error),
        "typed": typed,
        "typed_text": "\n\n".join(text for _, text in typed),
        "error": type(error).__name__,
    }
    before, after = error.facts.get("before"), now.card
    if isinstance(error, NoLongerOpen) and now.replaced_by:
        before, after = now.card, _carry_over(request, viewer, now.replaced_by)
        context["carried"] = after is not None
    if before is not None and after is not None:
        context["changes"] = diff_values(before, after)
    return _render_again(request, found, context, 409)


def _carry_over(request: HttpRequest, viewer: Viewer, replaced_by: str) -> Any:
    """Store what was typed as a draft of the request that replaced this one, and return its card."""
    try:
        later = read_request(viewer, replaced_by)
        if later.open and not later.refusal:
            save_draft(viewer, replaced_by, fields_of(request.POST))
    except (NotFound, NotAllowed, Invalid):
        return None
    return later.card


def _rendered_card(found: RequestView) -> str:
    """Return the card as HTML, for the audit. It is what was shown: its fingerprint is compared."""
    return render_to_string("components/card.html", {"card": card.build(found.card, found.answer_schema)})


def _flash_result(request: HttpRequest, viewer: Viewer, found: RequestView, reply: Reply) -> None:
    """Flash the outcome of the answer; while it can be undone, the undo bar shows it."""
    if reply.settles is not None:
        return
    if found.rules.need > 1 and read_request(viewer, found.id).open:
        messages.success(
            request, f"Your vote was recorded: you {past(reply.verdict)} “{found.subject}”.", extra_tags="toast"
        )
        return
    words = {"approve": "Approved", "reject": "Rejected", "answered": "Answered"}
    labels = {choice.name: choice.label for choice in actions_of(found.answer_schema, found.card)}
    done = words.get(reply.verdict) or labels.get(reply.verdict) or reply.verdict
    messages.success(request, f"{done}: {found.subject}. {_what_follows(found)}", extra_tags="toast")


def _what_follows(found: RequestView) -> str:
    """Return what becomes of a run that has its answer."""
    if settings.WFDASH_HOLD:
        return "The run continues where this installation is not on hold."
    return "The run continues once it is resumed." if found.run_phase == "paused" else "The run continues."


def _next_page(request: HttpRequest, viewer: Viewer, found: RequestView, place: dict[str, str]) -> HttpResponseRedirect:
    """Redirect to the next request of the inbox where the answer came from there, else to this one's outcome, which has
    the address that the answer was sent to.
    """
    if not place:
        return HttpResponseRedirect(escape_uri_path(request.path))
    try:
        order = {"sort": place.get("sort", "age")}
        following = next_request(viewer, found.id, place["tab"], place.get("q", ""), **order)
    except Invalid:  # an invalid filter: the answer was accepted all the same
        following = ""
    further = {"request": following} if following and place["tab"] != "answered" else {}
    return redirect(f"{reverse('wfdash:inbox')}?{urlencode({**place, **further})}")
