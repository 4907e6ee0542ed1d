"""The inbox: every request that waits for this person, the list left, the decision card right."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid, NotFound
from wfdash.pages.requests.inbox_rows import RowsContext, inbox_rows
from wfdash.pages.requests.panel import panel
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import InboxAddress, read_inbox_address
from wfdash.pages.site.list_page import flaws_of, open_view, search_context, views_context
from wfdash.pages.site.time_zone import moment_in
from wfdash.pages.ui.fragments import respond
from wfdash.queries.requests.inbox import (
    TABS,
    count_all,
    count_similar,
    count_similar_shown,
    count_since,
    position,
    read_inbox,
    read_neighbours,
    request_rows,
)
from wfdash.queries.requests.qualifiers import FILTER
from wfdash.queries.requests.request import read_request
from wfdash.queries.unreadable import why
from wfdash.rendering import render

LABELS = {
    "mine": "My queue",
    "groups": "My groups",
    "unassigned": "Unassigned",
    "asked": "Questions for me",
    "all": "All open",
    "answered": "Decided by me",
}
SORTS = {"age": "Oldest first", "due": "Due date", "risk": "Risk", "alike": "Similar"}
TEMPLATES = {False: "requests/inbox/page.html", True: "requests/inbox/focus.html"}
FRAGMENTS = {"list": "requests/inbox/list.html", "news": "requests/inbox/news.html"}
SHOWN = 50
MOST_IDS = 200


@page("GET")
def inbox(request: HttpRequest) -> HttpResponse:
    """Show a tab of the inbox. ``request`` names the selected one; without it the first is shown on wide screens.

    ``view`` alone opens a saved view; ``focus`` shows one card and nothing else; ``fragment=news`` says what became
    of the requests named by ``ids``, and how many are new since ``since``.
    """
    viewer, place = viewer_of(request), read_inbox_address(request.GET)
    if place.view and "tab" not in request.GET:
        return open_view(viewer, place.view)
    fragment = request.GET.get("fragment", "")
    if fragment == "news":
        return respond(request, "requests/inbox/page.html", _news_context(request, viewer, place), FRAGMENTS)
    context, place, shown = _surroundings(request, viewer, place, request.GET.get("request", ""))
    if fragment != "list":
        context |= _card(viewer, shown, place) | views_context(viewer, place)
    return respond(request, TEMPLATES[place.focus], context, FRAGMENTS)


def in_list(request: HttpRequest, request_id: str, panel: dict[str, Any], *, status: int) -> HttpResponse:
    """Return the panel of a request with the list it was opened from, which the address names."""
    viewer = viewer_of(request)
    context, place, _ = _surroundings(request, viewer, read_inbox_address(request.GET), request_id)
    return render(request, TEMPLATES[place.focus], context | panel | views_context(viewer, place), status=status)


def _surroundings(
    request: HttpRequest, viewer: Viewer, place: InboxAddress, selected: str
) -> tuple[dict[str, Any], InboxAddress, str]:
    """Return what is around a card, the place with its progress, and which request is shown."""
    context = _list_context(request, viewer, place)
    shown = selected or (context["rows"][0].row.id if context["rows"] else "")
    for line in context["rows"]:
        line.here = line.row.id == shown
    context |= {"selected": selected, "back": place.query}
    if place.focus:
        context |= _progress(viewer, place, shown, context)
        place = place.at(of=context["of"])
    return context, place, shown


@page("GET")
def focus(request: HttpRequest) -> HttpResponse:
    """Begin focus mode with what the address names."""
    return redirect(read_inbox_address(request.GET).at(focus=True).url(request=request.GET.get("request", "")))


def _list_context(request: HttpRequest, viewer: Viewer, place: InboxAddress) -> dict[str, Any]:
    """Return the list and everything about it; with a filter that is none, what is wrong with it instead."""
    now = timezone.now()
    common = search_context(place, FILTER) | {"now": now, "sorts": _sorts(place)}
    try:
        counts, waiting = count_all(viewer, place.q)
        cursor = request.GET.get("after", "")
        found = read_inbox(viewer, place.tab, place.q, sort=place.sort, cursor=cursor, limit=1 if place.focus else 50)
    except Invalid as error:
        return common | {"tabs": _tabs(place, {}), "rows": [], "flaws": flaws_of(error)}
    if place.sort == "alike":
        alike = count_similar(viewer, place.tab, place.q, found.items)
    else:
        alike = count_similar_shown(found.items)
    request.open_count = waiting  # type: ignore[attr-defined]
    return common | {
        "tabs": _tabs(place, counts),
        "counts": counts,
        "count": counts[place.tab],
        "rows": inbox_rows(RowsContext(viewer=viewer, place=place, rows=found.items, alike=alike, now=now)),
        "older": place.url(after=found.next) if found.next else "",
        "paged": bool(cursor),
    }


def _news_context(request: HttpRequest, viewer: Viewer, place: InboxAddress) -> dict[str, Any]:
    ids = [one for one in request.GET.get("ids", "").split(",") if one][:MOST_IDS]
    rows, now = request_rows(viewer, ids), timezone.now()
    counts, waiting = count_all(viewer, place.q)
    request.open_count = waiting  # type: ignore[attr-defined]
    since, known = moment_in(request.GET.get("since", "")) or now, ids if request.GET.get("whole") else None
    return {
        "spot": place,
        "tabs": _tabs(place, counts),
        "rows": inbox_rows(RowsContext(viewer=viewer, place=place, rows=rows, alike={}, now=now)),
        "new": count_since(viewer, place.tab, place.q, since, known),
    }


def _tabs(place: InboxAddress, counts: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": tab,
            "label": LABELS[tab],
            "count": counts.get(tab),
            "here": tab == place.tab,
            "href": place.at(tab=tab, view="", focus=False).url(),
        }
        for tab in TABS
    ]


def _sorts(place: InboxAddress) -> list[dict[str, Any]]:
    return [
        {"label": label, "href": place.at(sort=sort, focus=False).url(), "here": sort == place.sort}
        for sort, label in SORTS.items()
    ]


def _card(viewer: Viewer, request_id: str, place: InboxAddress) -> dict[str, Any]:
    if not request_id:
        return {}
    try:
        return panel(read_request(viewer, request_id), place.parts)
    except NotFound:
        return {"gone": True}
    except (Damaged, Locked) as error:
        return {"unreadable": why(error), "remedy": str(error)}


def _progress(viewer: Viewer, place: InboxAddress, shown: str, context: dict[str, Any]) -> dict[str, Any]:
    """Return the progress in focus mode, the number of the request in the list, and the ways to its neighbours."""
    left = context.get("count", 0)
    of = max(place.of, left)
    before, after = read_neighbours(viewer, shown, place.tab, place.q, sort=place.sort) if shown else ("", "")
    return {
        "left": left,
        "at": position(viewer, shown, place.tab, place.q, sort=place.sort) if shown else 0,
        "of": of,
        "done": of - left,
        "before": place.at(of=of).url(request=before) if before else "",
        "after": place.at(of=of).url(request=after) if after else "",
        "leave": place.at(focus=False).url(request=shown),
    }
