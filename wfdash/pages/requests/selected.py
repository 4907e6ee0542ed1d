"""What is done with the requests that are selected in the inbox: decided together, or assigned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.assign_many import MOST_ASSIGNED, assign_requests
from wfdash.errors import Invalid
from wfdash.pages.requests.inbox_rows import RowsContext, inbox_rows
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.site.list_address import InboxAddress, read_inbox_address
from wfdash.queries.requests.collaboration import read_assignees
from wfdash.queries.requests.inbox import RequestRow, request_rows
from wfdash.rendering import render

RESULT = "selected_result"
ACTS = ("together", "take", "assign")
MOST = MOST_ASSIGNED


@page("GET", "POST")
def selected(request: HttpRequest) -> HttpResponse:
    """Act on the requests that a POST names (``request``, ``act``); a GET shows what became of the last ones.

    ``together`` opens the table of similar requests, with these selected; ``take`` assigns them to oneself, ``assign``
    to ``to``, and asks for it first.
    """
    viewer, place = viewer_of(request), read_inbox_address(request.GET)
    if request.method != "POST":
        outcome = request.session.get(RESULT)
        return (
            render(request, "requests/selected/result.html", {"outcome": outcome})
            if outcome
            else redirect("wfdash:inbox")
        )
    ids = list(dict.fromkeys(request.POST.getlist("request")))[:MOST]
    act = request.POST.get("act", "")
    if not ids or act not in ACTS:
        messages.error(request, "Select at least one request.")
        return redirect(place.url())
    if act == "together":
        return _together(request, viewer, place, ids)
    if act == "assign" and "to" not in request.POST:
        return _choose(request, viewer, place, ids)
    return _assign(request, viewer, place, ids, viewer.name if act == "take" else request.POST.get("to", ""))


def _assign(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str], to: str) -> HttpResponse:
    try:
        outcomes = assign_requests(viewer, ids, to or None, key=key_of(request))
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.url())
    words = f"assigned to {'you' if to == viewer.name else to}" if to else "unassigned"
    request.session[RESULT] = {
        "words": words,
        "done": [{"id": one.request, "subject": one.subject} for one in outcomes if not one.problem],
        "stayed": [
            {"id": one.request, "subject": one.subject, "problem": one.problem} for one in outcomes if one.problem
        ],
        "inbox": place.at(focus=False).url(),
    }
    return redirect("wfdash:selected")


def _choose(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str]) -> HttpResponse:
    """Ask to whom they are assigned: anyone who may answer in one of their workflows."""
    rows = request_rows(viewer, ids)
    names = read_assignees(viewer, {row.workflow for row in rows})
    context = {"rows": rows, "names": names, "spot": place, "viewer": viewer}
    return render(request, "requests/selected/assign.html", context)


def _together(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str]) -> HttpResponse:
    """Open the table of similar requests; if they do not ask the same, say which of them do."""
    rows = request_rows(viewer, ids)
    gates: dict[tuple[str, str, str], list[RequestRow]] = {}
    for row in rows:
        if row.open:
            gates.setdefault(row.gate, []).append(row)
    if len(gates) == 1:
        return redirect(_table(place, next(iter(gates.values()))))
    titles = catalog.titles()
    groups = [
        {"title": titles.get(gate[0], gate[0]), "step": gate[1], "rows": asked, "href": _table(place, asked)}
        for gate, asked in gates.items()
    ]
    now: dict[str, Any] = {"viewer": viewer, "place": place, "alike": {}, "now": timezone.now()}
    closed = inbox_rows(RowsContext(rows=[row for row in rows if not row.open], **now))
    context = {"groups": groups, "closed": closed, "missing": len(ids) - len(rows), "spot": place}
    return render(request, "requests/selected/groups.html", context)


def _table(place: InboxAddress, rows: Sequence[RequestRow]) -> str:
    """Return the address of the table of what is similar to these, with them selected."""
    first = next((row for row in rows if row.risk != "high"), rows[0])
    chosen = urlencode([("request", row.id) for row in rows])
    return f"{reverse('wfdash:alike', args=[first.id])}?{place.query}&{chosen}"
