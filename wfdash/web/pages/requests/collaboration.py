"""Collaboration on a request: undo, drafts, presence and assignment."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from wfdash.access.viewer import Viewer
from wfdash.actions.account import read_notices
from wfdash.actions.requests.answer import undo_answer, undo_batch
from wfdash.actions.requests.collaboration import (
    MENTION,
    amend_request,
    ask_back,
    assign_request,
    comment_on,
    drop_draft,
    leave_request,
    reply_to_ask,
    save_draft,
    take_over,
    watch_request,
)
from wfdash.domain.errors import Invalid, NotAllowed, WrongState
from wfdash.notifications.rendering import render
from wfdash.queries.requests.request import assignable, mentionable, read_request
from wfdash.web.pages.requests.panel import address_params, back_to, fields_of, panel
from wfdash.web.pages.site.context_processors import MOST_UNDOABLE, path_in
from wfdash.web.pages.site.decorators import key_of, moment_in, page, viewer_of

# Comments on a request: comments, questions back, replies, and additions to the card.

COMMENT_ACTIONS = {"comment": comment_on, "ask": ask_back, "reply": reply_to_ask}
KINDS = {"markdown": "Text (markdown)", "text": "Plain text", "link": "Link", "diff": "Difference"}


@page("POST")
def talk(request: HttpRequest, request_id: str) -> HttpResponse:
    """Add a comment; ``kind`` is comment, ask (a question back) or reply (to it). The text is kept if it is refused.

    ``write`` adds none, but shows the request with the text in its field.
    """
    viewer, place = viewer_of(request), address_params(request.GET)
    text = _unix_lines(request.POST.get("text", ""))
    if request.POST.get("kind") == "write":
        return _render_again(request, viewer, request_id, text, "", 200)
    say = COMMENT_ACTIONS.get(request.POST.get("kind", ""), comment_on)
    try:
        comment = say(viewer, request_id, text, key=key_of(request))
    except Invalid as error:
        return _render_again(request, viewer, request_id, text, str(error.errors[0]["msg"]), 422)
    except WrongState as error:
        return _render_again(request, viewer, request_id, text, str(error), 409)
    # Show a warning about mentioned people who were not notified.
    unheard = set(MENTION.findall(comment.text)) - set(comment.mentions)
    if unheard:
        names = ", ".join(f"@{name}" for name in sorted(unheard))
        messages.warning(request, f"{names} was not notified: no such user, or no access to this request.")
    return back_to(request_id, place, f"#said-{comment.pk}")


@page("GET", "POST")
def amend(request: HttpRequest, request_id: str) -> HttpResponse:
    """Add to the description and the evidence of an open request; the proposal does not change."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            body, evidence = _unix_lines(request.POST.get("body", "")), _evidence(request)
            amend_request(viewer, request_id, body=body, evidence=evidence, key=key_of(request))
            messages.success(request, "Information added. Reviewers see the change before they decide.")
            return back_to(request_id, address_params(request.GET))
        except Invalid as error:
            problems = error.by_field
    found = read_request(viewer, request_id)
    if not (found.may_inform and found.open):
        raise NotAllowed("Only the requester, operators and reviewers can add information")
    context = {"item": found, "kinds": KINDS, "typed": request.POST, "problems": problems}
    context["origin"] = request.GET.urlencode()
    return render(request, "requests/request/amend.html", context, status=422 if problems else 200)


def _render_again(
    request: HttpRequest, viewer: Viewer, request_id: str, text: str, problem: str, status: int
) -> HttpResponse:
    context = panel(read_request(viewer, request_id), address_params(request.GET))
    context |= {"comment_text": text, "comment_problem": problem}
    return render(request, "requests/request/page.html", context, status=status)


def _evidence(request: HttpRequest) -> list[dict[str, Any]]:
    value = _unix_lines(request.POST.get("value", "")).strip()
    if not value:
        return []
    kind = request.POST.get("kind", "markdown")
    title = request.POST.get("title", "").strip()[:200] or "Added"
    return [{"kind": kind if kind in KINDS else "markdown", "title": title, "value": value[:200_000]}]


def _unix_lines(text: str) -> str:
    """Return text with ``\\n`` as line ends: browsers send ``\\r\\n``."""
    return text.replace("\r\n", "\n")


@page("POST")
def undo(request: HttpRequest, request_id: str) -> HttpResponse:
    """Undo the viewer's own answer or vote; the card opens again with it filled in."""
    try:
        undo_answer(viewer_of(request), request_id)
    except WrongState as error:
        messages.warning(request, str(error))
    return back_to(request_id, address_params(request.GET))


@page("POST")
def undo_all(request: HttpRequest) -> HttpResponse:
    """Undo one's own answers to the requests that the form names (``request``): those that the page listed."""
    done, late = undo_batch(viewer_of(request), request.POST.getlist("request")[:MOST_UNDOABLE])
    words = f"{done} answer{'' if done == 1 else 's'} undone." + (f" {late} could not be undone." if late else "")
    messages.add_message(request, messages.WARNING if late else messages.SUCCESS, words)
    return redirect(path_in(request.POST.get("next", "")) or "wfdash:inbox")


@page("POST")
def draft(request: HttpRequest, request_id: str) -> HttpResponse:
    """Save the card's form as a draft; ``_drop`` deletes it. 204 for a script, else the request again."""
    viewer = viewer_of(request)
    if "_drop" in request.POST:
        drop_draft(viewer, request_id)
        return back_to(request_id, address_params(request.GET))
    save_draft(viewer, request_id, fields_of(request.POST))
    if request.headers.get("X-Quiet"):
        return HttpResponse(status=204)
    messages.success(request, "Draft saved. Only you can see it.")
    return back_to(request_id, address_params(request.GET))


@page("POST")
def presence(request: HttpRequest, request_id: str) -> HttpResponse:
    """Record the heartbeat of a page that shows the request; ``typing``, or ``leave`` with the last ``seen`` when it
    closes.
    """
    viewer = viewer_of(request)
    if "leave" in request.POST:
        leave_request(viewer, request_id, moment_in(request.POST.get("seen", "")))
        return HttpResponse(status=204)
    seen = watch_request(viewer, request_id, typing="typing" in request.POST)
    read_notices(viewer, request=request_id)
    return JsonResponse({"seen": seen.isoformat()})


@page("POST")
def take(request: HttpRequest, request_id: str) -> HttpResponse:
    """Take the request over from the person who has it open."""
    take_over(viewer_of(request), request_id)
    return back_to(request_id, address_params(request.GET))


@page("GET", "POST")
def assign(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show the choice of assignees; a POST with ``to`` (a user name, empty: no one) assigns it."""
    viewer, problem, status = viewer_of(request), "", 200
    if request.method == "POST":
        to = request.POST.get("to", "")
        try:
            assign_request(viewer, request_id, to or None, key=key_of(request))
        except Invalid as error:
            problem, status = str(error.errors[0]["msg"]), 422
        else:
            messages.success(request, f"Assigned to {to}." if to else "Unassigned.")
            return back_to(request_id, address_params(request.GET))
    found = read_request(viewer, request_id)
    if not found.may_assign:
        raise NotAllowed("You cannot assign this request: " + (found.refusal or "it is no longer open"))
    context = {
        "item": found,
        "names": assignable(found),
        "problem": problem,
        "origin": request.GET.urlencode(),
    }
    return render(request, "requests/request/assign.html", context, status=status)


@page("GET")
def people(request: HttpRequest, request_id: str) -> HttpResponse:
    """Return the names of the people whom a comment can mention, as JSON."""
    return JsonResponse({"names": mentionable(read_request(viewer_of(request), request_id))})
