"""One request: its decision card, and the answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from checkpoints.records import Json
from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.errors import AlreadyAnswered, Invalid, NoLongerOpen
from wfdash.pages import answers
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import respond

FRAGMENTS = {"notice": "request/notice.html"}
PLACE = ("tab", "q", "sort")


@page("GET", "POST")
def request(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show a request; a POST answers it. 422 and 409 keep what was typed."""
    viewer = viewer_of(request)
    found = queries.request(viewer, request_id)
    if request.method == "POST":
        return _answer(request, viewer, found)
    return respond(request, "request/page.html", panel(viewer, found), FRAGMENTS)


def panel(
    viewer: Viewer,
    found: queries.RequestView,
    *,
    back: dict[str, str] | None = None,
    forms: tuple[answers.ActionForm, ...] | None = None,
) -> dict[str, Any]:
    """Return what ``request/panel.html`` needs. ``back`` is the place in the inbox to go on from."""
    return {
        "item": found,
        "forms": answers.forms_for(found) if forms is None else forms,
        "back_to": back or {},
        "title": queries.titles().get(found.workflow, found.workflow),
        "inspect": viewer.may("inspect", found.workflow),
    }


def _answer(request: HttpRequest, viewer: Viewer, found: queries.RequestView) -> HttpResponse:
    given = answers.read(found, request.POST, request.FILES)
    if given.incomplete:
        return _again(request, viewer, found, given, 422 if given.errors else 200)
    try:
        answer = desk.answer_request(viewer, found.id, given.value, verdict=given.action)
    except Invalid as error:
        return _again(request, viewer, found, given.with_errors(error.errors), 422)
    except (AlreadyAnswered, NoLongerOpen) as error:
        current = queries.request(viewer, found.id)
        return _again(request, viewer, current, given, 409, error)
    messages.success(request, _said(found, answer.verdict))
    return _go_on(viewer, found, request.POST)


def _again(
    request: HttpRequest,
    viewer: Viewer,
    found: queries.RequestView,
    given: answers.Given,
    status: int,
    conflict: Exception | None = None,
) -> HttpResponse:
    """Show the card again with everything that was typed."""
    context = panel(viewer, found, back=_place(request.POST), forms=given.forms)
    typed = given.value if conflict else None
    context |= {"conflict": str(conflict) if conflict else "", "typed": typed}
    return render(request, "request/page.html", context, status=status)


def _go_on(viewer: Viewer, found: queries.RequestView, post: QueryDict) -> HttpResponse:
    """Open the next request of the inbox where the answer came from there, else show what became of this one."""
    if "tab" not in post:
        return redirect("request", found.id)
    place = _place(post)
    rows = queries.inbox(viewer, place["tab"], place["q"], sort=place["sort"], limit=2).items
    following = next((row.id for row in rows if row.id != found.id and place["tab"] != "answered"), "")
    return redirect("/?" + urlencode({**place, **({"request": following} if following else {})}))


def _place(post: QueryDict) -> dict[str, str]:
    """Return the place in the inbox that the form came from; empty for a request's own page."""
    if "tab" not in post:
        return {}
    place = {name: post.get(name, "") for name in PLACE}
    return {**place, "tab": place["tab"] if place["tab"] in queries.TABS else "mine", "sort": place["sort"] or "age"}


def _said(found: queries.RequestView, verdict: str) -> str:
    words: Json = {"approve": "Approved", "reject": "Rejected", "answered": "Answered"}.get(verdict)
    label = next((a["label"] for a in found.card.get("actions", []) if a.get("name") == verdict), verdict)
    return f"{words or label}: {found.subject}. The run goes on."
