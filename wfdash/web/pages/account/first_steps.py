"""The first steps of an installation, on a page of their own."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from wfdash.actions.account.preferences import dismiss_first_steps
from wfdash.domain.errors import NotAllowed
from wfdash.notifications.rendering import render
from wfdash.queries.account import read_first_steps
from wfdash.web.pages.site.decorators import page, viewer_of


@page("GET", "POST")
def first_steps(request: HttpRequest) -> HttpResponse:
    """Show what an installation still lacks; a POST stops showing it in empty lists."""
    viewer = viewer_of(request)
    found = read_first_steps(viewer)
    if found is None:
        raise NotAllowed("Only admins of every workflow set up the installation")
    if request.method == "POST":
        dismiss_first_steps(viewer)
        return redirect("wfdash:inbox")
    return render(request, "account/first_steps/page.html", {"steps": found})
