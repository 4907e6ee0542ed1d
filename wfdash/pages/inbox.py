"""The inbox: every request that waits for this person, the list left, the decision card right."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from wfdash import queries
from wfdash.access import Viewer
from wfdash.errors import Invalid, NotFound
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import respond
from wfdash.pages.inboxplace import InboxPlace, place_in, read_place
from wfdash.pages.inboxrows import Listed, lines
from wfdash.pages.panel import panel
from wfdash.queries import filters

LABELS = {
    "mine": "For me",
    "groups": "My groups",
    "unassigned": "Unassigned",
    "asked": "Asked of me",
    "all": "All open",
    "answered": "Answered",
}
SORTS = {"age": "Oldest", "due": "Due", "risk": "Risk", "alike": "Alike"}
FRAGMENTS = {"list": "inbox/list.html", "news": "inbox/news.html"}
SHOWN = 50
MOST_IDS = 200


@page("GET")
def inbox(request: HttpRequest) -> HttpResponse:
    """Show a tab of the inbox. ``request`` names the selected one; without it the first is shown on wide screens.

    ``view`` alone opens a saved view; ``focus`` shows one card and nothing else; ``fragment=news`` says what became
    of the requests named by ``ids``, and how many are new since ``since``.
    """
    viewer, place = viewer_of(request), read_place(request.GET)
    if place.view and "tab" not in request.GET:
        return open_view(viewer, place.view)
    fragment = request.GET.get("fragment", "")
    if fragment == "news":
        return respond(request, "inbox/page.html", _news(request, viewer, place), FRAGMENTS)
    context = _listed(request, viewer, place)
    selected = request.GET.get("request", "")
    shown = selected or (context["rows"][0].row.id if context["rows"] else "")
    for line in context["rows"]:
        line.here = line.row.id == shown
    context |= {"selected": selected, "back": place.query}
    if place.focus:
        context |= _progress(viewer, place, shown, context)
        place = place.at(of=context["of"])
    if fragment != "list":
        context |= _card(viewer, shown, place) | _views(viewer, place)
    return respond(request, "inbox/focus.html" if place.focus else "inbox/page.html", context, FRAGMENTS)


@page("GET")
def focus(request: HttpRequest) -> HttpResponse:
    """Begin focus mode with what the address names."""
    return redirect(read_place(request.GET).at(focus=True).url(request=request.GET.get("request", "")))


def open_view(viewer: Viewer, view_id: str) -> HttpResponse:
    """Return to the list a saved view names."""
    view = queries.view(viewer, view_id)
    return redirect(place_in(view.query).at(view=view.id).url())


def _listed(request: HttpRequest, viewer: Viewer, place: InboxPlace) -> dict[str, Any]:
    """Return the list and everything about it; with a filter that is none, what is wrong with it instead."""
    now = timezone.now()
    common = {"spot": place, "now": now, "keys": _keys(), "sorts": _sorts(place)}
    try:
        counts, waiting = queries.count_all(viewer, place.q)
        cursor = request.GET.get("after", "")
        found = queries.inbox(
            viewer, place.tab, place.q, sort=place.sort, cursor=cursor, limit=1 if place.focus else 50
        )
    except Invalid as error:
        flaws = [{"part": flaw["loc"][-1], "message": flaw["msg"]} for flaw in error.errors]
        return common | {"tabs": _tabs(place, {}), "rows": [], "flaws": flaws}
    if place.sort == "alike":
        alike = queries.alike(viewer, place.tab, place.q, found.items)
    else:
        alike = queries.alike_here(found.items)
    request.open_count = waiting  # type: ignore[attr-defined]
    return common | {
        "tabs": _tabs(place, counts),
        "counts": counts,
        "count": counts[place.tab],
        "rows": lines(Listed(viewer=viewer, place=place, rows=found.items, alike=alike, now=now)),
        "older": place.url(after=found.next) if found.next else "",
        "paged": bool(cursor),
    }


def _news(request: HttpRequest, viewer: Viewer, place: InboxPlace) -> dict[str, Any]:
    ids = [one for one in request.GET.get("ids", "").split(",") if one][:MOST_IDS]
    rows, now = queries.rows_now(viewer, ids), timezone.now()
    counts, waiting = queries.count_all(viewer, place.q)
    request.open_count = waiting  # type: ignore[attr-defined]
    since, known = _moment(request.GET.get("since", ""), now), ids if request.GET.get("whole") else None
    return {
        "spot": place,
        "tabs": _tabs(place, counts),
        "rows": lines(Listed(viewer=viewer, place=place, rows=rows, alike={}, now=now)),
        "new": queries.count_since(viewer, place.tab, place.q, since, known),
    }


def _moment(text: str, now: datetime) -> datetime:
    try:
        found = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        return now
    return found if found is not None and found.tzinfo is not None else now


def _tabs(place: InboxPlace, counts: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": tab,
            "label": LABELS[tab],
            "count": counts.get(tab),
            "here": tab == place.tab,
            "href": place.at(tab=tab, view="", focus=False).url(),
        }
        for tab in queries.TABS
    ]


def _sorts(place: InboxPlace) -> list[dict[str, Any]]:
    return [
        {"label": label, "href": place.at(sort=sort, focus=False).url(), "here": sort == place.sort}
        for sort, label in SORTS.items()
    ]


def _keys() -> list[tuple[str, str, str]]:
    return [(key, example, filters.MEANINGS[key]) for key, example in filters.EXAMPLES.items()]


def _views(viewer: Viewer, place: InboxPlace) -> dict[str, Any]:
    views = queries.views(viewer)
    current = next((view for view in views if view.id == place.view), None)
    changed = current is not None and place_in(current.query).saved != place.saved
    return {"views": views, "current_view": current, "view_changed": changed, "saved": place.saved}


def _card(viewer: Viewer, request_id: str, place: InboxPlace) -> dict[str, Any]:
    if not request_id:
        return {}
    try:
        return panel(queries.request(viewer, request_id), place.parts)
    except NotFound:
        return {"gone": True}


def _progress(viewer: Viewer, place: InboxPlace, shown: str, context: dict[str, Any]) -> dict[str, Any]:
    """Return how far one is in focus mode, and the ways to the neighbours."""
    left = context.get("count", 0)
    of = max(place.of, left)
    before, after = queries.neighbours(viewer, shown, place.tab, place.q, sort=place.sort) if shown else ("", "")
    return {
        "left": left,
        "of": of,
        "done": of - left,
        "before": place.at(of=of).url(request=before) if before else "",
        "after": place.at(of=of).url(request=after) if after else "",
        "leave": place.at(focus=False).url(request=shown),
    }
