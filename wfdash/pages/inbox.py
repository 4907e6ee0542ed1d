"""The inbox: every request that waits for this person, the list left, the decision card right."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from wfdash import queries
from wfdash.access import Viewer
from wfdash.errors import NotFound
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import respond
from wfdash.pages.request import panel

LABELS = {
    "mine": "For me",
    "groups": "My groups",
    "unassigned": "Unassigned",
    "asked": "Asked of me",
    "all": "All open",
    "answered": "Answered",
}
SORTS = (("age", "Oldest first"), ("due", "Due first"))
FRAGMENTS = {"list": "inbox/list.html"}


@page("GET")
def inbox(request: HttpRequest) -> HttpResponse:
    """Show a tab of the inbox. ``request`` names the selected one; without it the first is shown on wide screens."""
    viewer = viewer_of(request)
    place = _place(request)
    found = queries.inbox(viewer, place["tab"], place["q"], sort=place["sort"], cursor=request.GET.get("after", ""))
    selected = request.GET.get("request", "")
    shown = selected or (found.items[0].id if found.items else "")
    context: dict[str, Any] = {
        "rows": found.items,
        "titles": queries.titles(),
        "place": place,
        "here": urlencode({**place, "request": shown}),
        "back": urlencode(place),
        "selected": selected,
        "older": f"?{urlencode({**place, 'after': found.next})}" if found.next else "",
        "tabs": _tabs(viewer, place),
        "sorts": SORTS,
    }
    if request.GET.get("fragment") != "list":
        context |= _card(viewer, shown, place)
    return respond(request, "inbox/page.html", context, FRAGMENTS)


def _place(request: HttpRequest) -> dict[str, str]:
    tab, sort = request.GET.get("tab", "mine"), request.GET.get("sort", "age")
    return {
        "tab": tab if tab in queries.TABS else "mine",
        "q": request.GET.get("q", "").strip(),
        "sort": sort if sort in dict(SORTS) else "age",
    }


def _tabs(viewer: Viewer, place: dict[str, str]) -> list[dict[str, Any]]:
    counts = queries.count_tabs(viewer)
    return [
        {"name": tab, "label": LABELS[tab], "count": counts[tab], "here": tab == place["tab"]} for tab in queries.TABS
    ]


def _card(viewer: Viewer, request_id: str, place: dict[str, str]) -> dict[str, Any]:
    if not request_id:
        return {}
    try:
        return panel(queries.request(viewer, request_id), place)
    except NotFound:
        return {"gone": True}
