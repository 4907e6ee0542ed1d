"""What list pages share: the search box with its help and errors, its suggestions, saved views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import InboxAddress, ListAddress, address_in
from wfdash.queries.account import ViewRow, read_view, read_views
from wfdash.queries.audit import audit_suggestions
from wfdash.queries.requests.decisions import decision_suggestions
from wfdash.queries.requests.inbox import count_in_views
from wfdash.queries.requests.qualifiers import request_suggestions
from wfdash.queries.runs.filter_keys import run_suggestions
from wfdash.queries.runs.listing import count_found
from wfdash.queries.schedules import schedule_suggestions
from wfdash.queries.search.qualifiers import ListFilter
from wfdash.queries.workflows import workflow_suggestions
from wfdash.records.base import Page, ScannedPage

SUGGESTIONS = {
    "inbox": request_suggestions,
    "runs": run_suggestions,
    "audit": audit_suggestions,
    "decisions": decision_suggestions,
    "schedules": schedule_suggestions,
    "workflows": workflow_suggestions,
}

COUNTED_VIEWS = 20
"""Of how many saved views the rows are counted."""
MOST_COUNTED = 99


@page("GET")
def suggestions(request: HttpRequest, name: str) -> HttpResponse:
    """Return what the search box of a list suggests, as JSON."""
    return JsonResponse(SUGGESTIONS[name](viewer_of(request)))


def search_context(place: ListAddress, known: ListFilter[Any, Any]) -> dict[str, Any]:
    """Return what the search box of a list shows."""
    return {"spot": place, "help": known.help(), "words": f"{place.page}-words"}


def flaws_of(error: Invalid) -> list[dict[str, str]]:
    """Return the parts of a filter that cannot be understood, each with its message."""
    return [{"part": flaw["loc"][-1], "message": flaw["msg"]} for flaw in error.errors]


def pages_context(place: ListAddress, found: Page[Any]) -> dict[str, Any]:
    """Return the links to what follows: to the next page, or on where only a part of the list was looked through."""
    reached = found.reached if isinstance(found, ScannedPage) else None
    return {
        "older": place.url(after=found.next) if found.next and reached is None else "",
        "further": place.url(after=found.next, far="1") if reached else "",
        "reached": reached,
    }


def views_context(viewer: Viewer, place: ListAddress) -> dict[str, Any]:
    """Return the saved views of a list, the one that is open, and whether the list has been changed since."""
    views = read_views(viewer, place.page)
    current = next((view for view in views if view.id == place.view), None)
    changed = current is not None and address_in(place.page, current.query).saved != place.saved
    return {"views": views, "current_view": current, "view_changed": changed, "saved": place.saved}


def counted_views(viewer: Viewer, name: str, views: Sequence[ViewRow]) -> tuple[ViewRow, ...]:
    """Return saved views of a list with how many rows they have: the first of them, and up to a limit each."""
    counted, rest = views[:COUNTED_VIEWS], views[COUNTED_VIEWS:]
    places = [address_in(name, view.query) for view in counted]
    count = _count_runs if name == "runs" else _count_requests
    numbers = count(viewer, places)
    return (*(_with_count(view, number) for view, number in zip(counted, numbers, strict=True)), *rest)


def _count_requests(viewer: Viewer, places: Sequence[ListAddress]) -> list[int | None]:
    wanted = [(place.tab, place.q) for place in places if isinstance(place, InboxAddress)]
    return count_in_views(viewer, wanted, MOST_COUNTED + 1)


def _count_runs(viewer: Viewer, places: Sequence[ListAddress]) -> list[int | None]:
    return [_found_runs(viewer, place.q) for place in places]


def _found_runs(viewer: Viewer, text: str) -> int | None:
    try:
        number, more = count_found(viewer, text, MOST_COUNTED)
    except Invalid:
        return None
    return number + more


def _with_count(view: ViewRow, number: int | None) -> ViewRow:
    if number is None:
        return view.model_copy(update={"broken": True})
    return view.model_copy(update={"count": f"{MOST_COUNTED}+" if number > MOST_COUNTED else str(number)})


def open_view(viewer: Viewer, view_id: str) -> HttpResponse:
    """Return to the list a saved view names."""
    view = read_view(viewer, view_id)
    return redirect(address_in(view.page, view.query).at(view=view.id).url())
