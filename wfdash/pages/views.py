"""Saved views of the inbox: save, change, delete; and the words its filter suggests."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from wfdash import desk, queries
from wfdash.errors import Invalid
from wfdash.pages.door import page, viewer_of
from wfdash.pages.inbox import open_view
from wfdash.pages.inboxplace import place_in


@page("POST")
def views(request: HttpRequest) -> HttpResponse:
    """Save the present tab, filter and order (``query``) under a name."""
    place = place_in(request.POST.get("query", ""))
    try:
        view = desk.save_view(
            viewer_of(request), request.POST.get("name", ""), place.saved, shared="shared" in request.POST
        )
    except Invalid as error:
        messages.error(request, _words(error))
        return redirect(place.url())
    messages.success(request, f"Saved: “{view.name}”.")
    return redirect("view", view.pk)


@page("GET", "POST")
def view(request: HttpRequest, view_id: str) -> HttpResponse:
    """Open a view; a POST renames it, shares it or not, lets it show the present filter, or deletes it."""
    if request.method != "POST":
        return open_view(viewer_of(request), view_id)
    viewer, place = viewer_of(request), place_in(request.POST.get("query", ""))
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


def _words(error: Invalid) -> str:
    return "; ".join(str(one["msg"]) for one in error.errors)
