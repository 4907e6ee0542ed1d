"""The list of runs."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from wfdash import queries
from wfdash.errors import Invalid
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import respond
from wfdash.pages.words import standing

QUICK = (
    ("", "All"),
    ("status:open", "Open"),
    ("status:waiting", "Waiting"),
    ("status:failed", "Failed"),
    ("status:completed", "Completed"),
)
FRAGMENTS = {"list": "runs/list.html"}


@page("GET")
def runs(request: HttpRequest) -> HttpResponse:
    """Show one page of runs, newest first; ``q`` filters, ``after`` is the cursor of the next page."""
    text, cursor = request.GET.get("q", "").strip(), request.GET.get("after", "")
    try:
        found = queries.runs(viewer_of(request), text, cursor=cursor)
        flaws = []
    except Invalid as error:
        found, flaws = queries.Page(items=()), error.errors
    following = {name: value for name, value in (("q", text), ("after", found.next)) if value}
    here = {name: value for name, value in (("q", text), ("after", cursor)) if value}
    context = {
        "rows": [(run, standing(run)) for run in found.items],
        "titles": queries.titles(),
        "text": text,
        "quick": [(query, label, query == text) for query, label in QUICK],
        "older": f"?{urlencode(following)}" if found.next else "",
        "newest": bool(cursor),
        "refresh": f"?{urlencode({**here, 'fragment': 'list'})}",
        "unknown": [flaw["msg"] for flaw in flaws],
    }
    return respond(request, "runs/page.html", context, FRAGMENTS)
