"""What list pages share: the search box with its help and errors, its suggestions, saved views."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from wfdash import queries
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import ListAddress, address_in

SUGGESTIONS = {
    "inbox": queries.request_suggestions,
    "runs": queries.run_suggestions,
    "audit": queries.audit_suggestions,
    "schedules": queries.schedule_suggestions,
    "workflows": queries.workflow_suggestions,
}


@page("GET")
def suggestions(request: HttpRequest, name: str) -> HttpResponse:
    """Return what the search box of a list suggests, as JSON."""
    return JsonResponse(SUGGESTIONS[name](viewer_of(request)))


def search_context(place: ListAddress, known: queries.ListFilter[Any, Any]) -> dict[str, Any]:
    """Return what the search box of a list shows."""
    return {"spot": place, "help": known.help(), "words": f"{place.page}-words"}


def flaws_of(error: Invalid) -> list[dict[str, str]]:
    """Return the parts of a filter that cannot be understood, each with its message."""
    return [{"part": flaw["loc"][-1], "message": flaw["msg"]} for flaw in error.errors]


def views_context(viewer: Viewer, place: ListAddress) -> dict[str, Any]:
    """Return the saved views of a list, the one that is open, and whether the list has been changed since."""
    views = queries.views(viewer, place.page)
    current = next((view for view in views if view.id == place.view), None)
    changed = current is not None and address_in(place.page, current.query).saved != place.saved
    return {"views": views, "current_view": current, "view_changed": changed, "saved": place.saved}


def open_view(viewer: Viewer, view_id: str) -> HttpResponse:
    """Return to the list a saved view names."""
    view = queries.view(viewer, view_id)
    return redirect(address_in(view.page, view.query).at(view=view.id).url())
