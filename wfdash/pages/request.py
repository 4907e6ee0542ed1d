"""One request: its decision card, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.errors import AlreadyAnswered, Invalid, NoLongerOpen
from wfdash.pages import card
from wfdash.pages.card.actions import choices_of
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import respond

FRAGMENTS = {"notice": "request/notice.html"}
PLACE = ("tab", "q", "sort")


@page("GET", "POST")
def request(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show a request; a POST answers it. 422 and 409 keep what was typed.

    ``tab``, ``q`` and ``sort`` say from where in the inbox the person came, so that the next one opens after it.
    """
    viewer = viewer_of(request)
    found = queries.request(viewer, request_id)
    if request.method == "POST":
        return _answer(request, viewer, found)
    return respond(request, "request/page.html", panel(found, place_of(request.GET)), FRAGMENTS)


def panel(
    found: queries.RequestView,
    place: Mapping[str, str],
    reading: card.Reading | None = None,
    errors: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return what ``request/panel.html`` needs: the card, with a form if this person may answer."""
    url = reverse("request", args=[found.id]) + (f"?{urlencode(place)}" if place else "")
    drawn = card.build(
        found.card,
        found.answer_schema,
        url=url if found.open and not found.refusal else "",
        initial=(found.suggestion or {}).get("value"),
        reading=reading,
        errors=errors,
    )
    return {"item": found, "card": drawn, "title": queries.titles().get(found.workflow, found.workflow)}


def place_of(query: QueryDict) -> dict[str, str]:
    """Return the place in the inbox that an address names; empty for a request's own page."""
    if query.get("tab") not in queries.TABS:
        return {}
    return {name: query.get(name, "") for name in PLACE}


def _answer(request: HttpRequest, viewer: Viewer, found: queries.RequestView) -> HttpResponse:
    reading = card.read_answer(found.answer_schema, found.card, request.POST, request.FILES)
    place = place_of(request.GET)
    if found.open and (reading.editing or reading.errors):
        context = panel(found, place, reading)
        return render(request, "request/page.html", context, status=200 if reading.editing else 422)
    try:
        answer = desk.answer_request(viewer, found.id, reading.value, verdict=reading.action)
    except Invalid as error:
        return render(request, "request/page.html", panel(found, place, reading, error.errors), status=422)
    except (AlreadyAnswered, NoLongerOpen) as error:
        context = panel(queries.request(viewer, found.id), place, reading)
        context |= {"conflict": str(error), "typed": reading.value}
        return render(request, "request/page.html", context, status=409)
    messages.success(request, _said(found, answer.verdict))
    return _go_on(viewer, found, place)


def _go_on(viewer: Viewer, found: queries.RequestView, place: dict[str, str]) -> HttpResponse:
    """Open the next request of the inbox where the answer came from there, else show what became of this one."""
    if not place:
        return redirect("request", found.id)
    rows = queries.inbox(viewer, place["tab"], place["q"], sort=place["sort"], limit=2).items
    following = next((row.id for row in rows if row.id != found.id and place["tab"] != "answered"), "")
    return redirect("/?" + urlencode({**place, **({"request": following} if following else {})}))


def _said(found: queries.RequestView, verdict: str) -> str:
    words = {"approve": "Approved", "reject": "Rejected", "answered": "Answered"}
    labels = {choice.name: choice.label for choice in choices_of(found.answer_schema, found.card)}
    return f"{words.get(verdict) or labels.get(verdict) or verdict}: {found.subject}. The run goes on."
