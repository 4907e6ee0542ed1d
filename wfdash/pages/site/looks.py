"""How lists look for a person: read once per request; the density of rows, which is the same for all lists."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme

from wfdash.actions.account.looks import set_density
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.queries import account
from wfdash.queries.account import DENSITIES, ListLooks


def looks_of(request: HttpRequest) -> ListLooks:
    """Return what the person of a request chose for lists (one query for each request)."""
    kept: Any = request
    if not hasattr(kept, "list_looks"):
        kept.list_looks = account.looks_of(viewer_of(request))
    found: ListLooks = kept.list_looks
    return found


@page("POST")
def density(request: HttpRequest) -> HttpResponse:
    """Keep how dense rows are (``density``), here and in all lists, and go back to the list (``next``)."""
    chosen = request.POST.get("density", "")
    if chosen in DENSITIES:
        set_density(viewer_of(request), chosen)
    return redirect(path_in(request.POST.get("next", "")) or "wfdash:runs")


def path_in(text: str) -> str:
    """Return an address within wfdash that a form names, empty for any other."""
    # A path: other safe values could be the name of a page, and would be resolved as one.
    return text if text.startswith("/") and url_has_allowed_host_and_scheme(text, allowed_hosts=None) else ""
