"""Saved views of lists: save, change, delete; and the words the filter of the inbox suggests."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from wfdash import desk, queries
from wfdash.errors import Invalid
from wfdash.pages.door import page, viewer_of
from wfdash.pages.inbox import open_view
from wfdash.pages.inboxplace import InboxPlace, place_in
from wfdash.pages.runs import open_runs_view
from wfdash.pages.runsplace import RunsPlace, runs_place_in


@page("POST")
def views(request: HttpRequest) -> HttpResponse:
    """Save what a list (``page``) shows at present (``query``) under a name."""
    name = "runs" if request.POST.get("page") == "runs" else "inbox"
    place = _place(name, request.POST.get("query", ""))
    try:
        given, shared = request.POST.get("name", ""), "shared" in request.POST
        view = desk.save_view(viewer_of(request), given, place.saved, page=name, shared=shared)
    except Invalid as error:
        messages.error(request, _words(error))
        return redirect(place.url())
    messages.success(request, f"Saved: “{view.name}”.")
    return redirect("view", view.pk)


@page("GET", "POST")
def view(request: HttpRequest, view_id: str) -> HttpResponse:
    """Open a view; a POST renames it, shares it or not, lets it show the present filter, or deletes it."""
    viewer = viewer_of(request)
    shows = queries.view(viewer, view_id).page
    if request.method != "POST":
        return open_runs_view(viewer, view_id) if shows == "runs" else open_view(viewer, view_id)
    place = _place(shows, request.POST.get("query", ""))
    try:
        if "delete" in request.POST:
            desk.delete_view(viewer, view_id)
            messages.success(request, "The view is deleted. Nothing it showed is.")
            return redirect(place.url())
        query = place.saved if "now" in request.POST else None
        name = request.POST.get("name", "")
        desk.change_view(viewer, view_id, name=name, query=query, shared="shared" in request.POST)
    except Invalid as error:
        messages.error(request, _words(error))
        return redirect(place.at(view=view_id).url())
    return redirect("view", view_id)


@page("GET")
def words(request: HttpRequest) -> HttpResponse:
    """Return what the filter of the inbox suggests, as JSON."""
    return JsonResponse(queries.suggestions(viewer_of(request)))


def _place(name: str, query: str) -> InboxPlace | RunsPlace:
    return runs_place_in(query) if name == "runs" else place_in(query)


def _words(error: Invalid) -> str:
    return "; ".join(str(one["msg"]) for one in error.errors)
