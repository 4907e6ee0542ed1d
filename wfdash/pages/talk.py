"""What is said about a request: comments, questions back, replies, and what is added to the card."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from checkpoints.models import Comment
from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.desk.talk import MENTION
from wfdash.errors import Invalid, WrongState
from wfdash.pages.door import key_of, page, viewer_of
from wfdash.pages.panel import back_to, panel, place_of

SAYING = {"comment": desk.comment_on, "ask": desk.ask_back, "reply": desk.reply_to_ask}
KINDS = {"markdown": "Text (markdown)", "text": "Plain text", "link": "Link", "diff": "Difference"}


@page("POST")
def talk(request: HttpRequest, request_id: str) -> HttpResponse:
    """Say something; ``kind`` is comment, ask (a question back) or reply (to it). Kept if it does not go."""
    viewer, place = viewer_of(request), place_of(request.GET)
    text = _lines(request.POST.get("text", ""))
    say = SAYING.get(request.POST.get("kind", ""), desk.comment_on)
    try:
        comment = say(viewer, request_id, text, key=key_of(request))
    except Invalid as error:
        return _again(request, viewer, request_id, text, str(error.errors[0]["msg"]), 422)
    except WrongState as error:
        return _again(request, viewer, request_id, text, str(error), 409)
    _tell_unheard(request, comment)
    return back_to(request_id, place, f"#said-{comment.pk}")


@page("GET", "POST")
def amend(request: HttpRequest, request_id: str) -> HttpResponse:
    """Add to the description and the evidence of an open request; the proposal stays as it is."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            body, evidence = _lines(request.POST.get("body", "")), _evidence(request)
            desk.amend_request(viewer, request_id, body=body, evidence=evidence, key=key_of(request))
            messages.success(request, "Added. Whoever has it open is shown what changed before they decide.")
            return back_to(request_id, place_of(request.GET))
        except Invalid as error:
            problems = {str(problem["loc"][0]): str(problem["msg"]) for problem in error.errors}
    found = queries.request(viewer, request_id)
    context = {"item": found, "kinds": KINDS, "typed": request.POST, "problems": problems}
    context["place"] = request.GET.urlencode()
    return render(request, "request/amend.html", context, status=422 if problems else 200)


def _again(request: HttpRequest, viewer: Viewer, request_id: str, text: str, problem: str, status: int) -> HttpResponse:
    context = panel(queries.request(viewer, request_id), place_of(request.GET))
    context |= {"said": text, "said_problem": problem}
    return render(request, "request/page.html", context, status=status)


def _tell_unheard(request: HttpRequest, comment: Comment) -> None:
    """Say whom a mention did not reach."""
    unheard = set(MENTION.findall(comment.text)) - set(comment.mentions)
    if unheard:
        names = ", ".join(f"@{name}" for name in sorted(unheard))
        messages.warning(request, f"{names} was not told: there is nobody of that name who may see this request.")


def _evidence(request: HttpRequest) -> list[dict[str, Any]]:
    value = _lines(request.POST.get("value", "")).strip()
    if not value:
        return []
    kind = request.POST.get("kind", "markdown")
    title = request.POST.get("title", "").strip()[:200] or "Added"
    return [{"kind": kind if kind in KINDS else "markdown", "title": title, "value": value[:200_000]}]


def _lines(text: str) -> str:
    """Return text with plain line ends: browsers send both characters."""
    return text.replace("\r\n", "\n")
