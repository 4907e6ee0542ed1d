"""Saved views of lists: save, change, delete."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from wfdash.actions.account import preferences
from wfdash.actions.account.preferences import change_view, delete_view
from wfdash.domain.errors import Invalid
from wfdash.notifications.rendering import render
from wfdash.queries.account import read_view, read_views
from wfdash.web.pages.site.decorators import page, viewer_of
from wfdash.web.pages.site.list_page import address_in, counted_views, open_view


@page("POST")
def save_view(request: HttpRequest) -> HttpResponse:
    """Save the current filter (``query``) of a list (``page``) under a name."""
    name = "runs" if request.POST.get("page") == "runs" else "inbox"
    place = address_in(name, request.POST.get("query", ""))
    try:
        given, shared = request.POST.get("name", ""), "shared" in request.POST
        view = preferences.save_view(viewer_of(request), given, place.saved, page=name, shared=shared)
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.url())
    messages.success(request, f"Saved: “{view.name}”.")
    return redirect("wfdash:view", view.pk)


@page("GET")
def counts(request: HttpRequest) -> HttpResponse:
    """Return the links to saved views of a list (``page``) with how many rows each has; ``view`` is the open one."""
    viewer, name = viewer_of(request), "runs" if request.GET.get("page") == "runs" else "inbox"
    views = counted_views(viewer, name, read_views(viewer, name))
    current = next((view for view in views if view.id == request.GET.get("view")), None)
    context = {"views": views, "current_view": current, "page": name, "counted": True}
    return render(request, "components/list/view_links.html", context)


@page("GET", "POST")
def view(request: HttpRequest, view_id: str) -> HttpResponse:
    """Open a view; a POST renames it, shares or unshares it, replaces its filter, or deletes it."""
    viewer = viewer_of(request)
    shows = read_view(viewer, view_id).page
    if request.method != "POST":
        return open_view(viewer, view_id)
    place = address_in(shows, request.POST.get("query", ""))
    try:
        if "delete" in request.POST:
            delete_view(viewer, view_id)
            messages.success(request, "View deleted.")
            return redirect(place.url())
        query = place.saved if "now" in request.POST else None
        name = request.POST.get("name", "")
        change_view(viewer, view_id, name=name, query=query, shared="shared" in request.POST)
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.at(view=view_id).url())
    return redirect("wfdash:view", view_id)
