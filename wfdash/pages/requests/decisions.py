"""The list of decisions, to which the numbers of statistics lead."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from wfdash import catalog
from wfdash.errors import Invalid
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import read_address
from wfdash.pages.site.list_page import flaws_of, pages_context, search_context
from wfdash.queries.requests.decisions import FILTER, REACH, count_decisions, read_decisions
from wfdash.rendering import render

DECIDED = {
    "approved": "Approved",
    "edited": "Edited",
    "rejected": "Rejected",
    "other": "Other",
    "deadline": "By deadline",
    "reversed": "Reversed",
}
"""What can become of a request, and what that is called."""
TONES = {"approved": "completed", "edited": "running", "rejected": "failed"}
QUICK = (
    ("", "All"),
    ("outcome:approved", "Approved"),
    ("outcome:edited", "Edited"),
    ("outcome:rejected", "Rejected"),
    ("outcome:deadline", "By deadline"),
    ("is:reversed", "Reversed"),
)


@page("GET")
def decisions(request: HttpRequest) -> HttpResponse:
    """Show one page of decisions, the latest first; ``q`` filters, ``after`` is the cursor of the next page."""
    viewer, place = viewer_of(request), read_address("decisions", request.GET)
    context: dict[str, Any] = search_context(place, FILTER) | {
        "quick": [(place.at(q=query).url(), label, place.q == query) for query, label in QUICK],
        "most": REACH,
    }
    try:
        found = read_decisions(viewer, place.q, cursor=request.GET.get("after", ""), far=bool(request.GET.get("far")))
        context["number"], context["more"] = count_decisions(viewer, place.q)
    except Invalid as error:
        return render(request, "requests/decisions.html", context | {"flaws": flaws_of(error)}, status=422)
    titles = catalog.titles()
    context["rows"] = [
        (row, titles.get(row.workflow, row.workflow), DECIDED[row.outcome], TONES.get(row.outcome, "cancelled"))
        for row in found.items
    ]
    return render(request, "requests/decisions.html", context | pages_context(place, found))
