"""One verb for many runs: a page that says what it would do, one POST that has it done, a page that tells of it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from wfdash import actions, queries
from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid, KeyReused
from wfdash.pages.runs.actions import new_key
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.site.list_address import RunsAddress
from wfdash.pages.ui.fragments import respond

DONE_MESSAGES = {
    "retry": ("Retry", "retried: only failed and interrupted steps run again", "retried"),
    "cancel": ("Cancel", "cancelled: open requests will be closed", "cancelled"),
    "pause": ("Pause", "paused until resumed", "paused"),
    "resume": ("Resume", "resumed from where they were", "resumed"),
    "delete": ("Delete", "deleted permanently: only their audit entries are kept", "deleted"),
    "tag": ("Tag", "tagged", "tagged"),
}
"""The verb, what would happen to the runs, and what has."""
MOST_SHOWN = 10


@page("GET", "POST")
def bulk(request: HttpRequest) -> HttpResponse:
    """Say what a ``verb`` would do to the runs named by ``run``, or with ``all`` to all that ``q`` finds."""
    viewer = viewer_of(request)
    if request.method == "POST":
        return _begin(request, viewer)
    verb, text = request.GET.get("verb", ""), request.GET.get("q", "").strip()
    try:
        ids = _chosen(request, viewer, text)
        found = actions.preview_bulk(viewer, verb, ids)
    except Invalid as error:
        return _page(request, viewer, verb, text, {"problem": error.summary}, status=422)
    return _page(request, viewer, verb, text, {"found": found, "runs": " ".join(found.runs)})


@page("GET", "POST")
def bulk_result(request: HttpRequest, bulk_id: str) -> HttpResponse:
    """Show the progress and the runs that are unchanged; a POST continues with the rest at once."""
    viewer = viewer_of(request)
    row = actions.find_bulk(viewer, bulk_id)
    if request.method == "POST":
        actions.continue_bulk(row.pk)
        return redirect("runs-told", row.pk)
    refused = row.refused.get("some", [])
    called = queries.titles_of(viewer, [run for run, _, _ in refused])
    some = [{"id": run, "title": called.get(run, title), "problem": problem} for run, title, problem in refused]
    context = {
        "bulk": row,
        "of": len(row.runs),
        "verb": DONE_MESSAGES[row.verb],
        "stays": sorted(dict(row.refused.get("why", {})).items(), key=lambda item: -item[1]),
        "stayed": row.done - row.acted,
        "some": some,
        "back": RunsAddress(q=str(row.facts.get("filter") or "")).url(),
        "spot": RunsAddress(),
    }
    return respond(request, "runs/listing/told.html", context, {"told": "runs/listing/progress.html"})


def _chosen(request: HttpRequest, viewer: Viewer, text: str) -> tuple[str, ...]:
    if request.GET.get("all"):
        return queries.all_ids(viewer, text, actions.MOST_AT_ONCE)
    return tuple(request.GET.getlist("run"))


def _begin(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Act on exactly the runs that the page counted."""
    verb, text = request.POST.get("verb", ""), request.POST.get("q", "").strip()
    ids = request.POST.get("runs", "").split()
    add, remove = (request.POST.get(name, "").replace(",", " ").split() for name in ("add", "remove"))
    try:
        row = actions.start_bulk(viewer, verb, ids, text=text, add=add, remove=remove, key=key_of(request))
    except (Invalid, KeyReused) as error:
        problem = error.summary if isinstance(error, Invalid) else str(error)
        more: dict[str, Any] = {"problem": problem, "typed": request.POST}
        if ids and verb in DONE_MESSAGES:
            more |= {"found": actions.preview_bulk(viewer, verb, ids), "runs": " ".join(ids)}
        return _page(request, viewer, verb, text, more, status=422)
    actions.continue_bulk(row.pk)
    return redirect("runs-told", row.pk)


def _page(
    request: HttpRequest, viewer: Viewer, verb: str, text: str, more: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    found = more.get("found")
    shown = queries.run_rows(viewer, found.runs[:MOST_SHOWN]) if found else ()
    context = {
        "name": verb,
        "verb": DONE_MESSAGES.get(verb, ("Do", "", "")),
        "text": text,
        "shown": shown,
        "left": len(found.runs) - len(shown) if found else 0,
        "back": RunsAddress(q=text).url(),
        "key": new_key(),
        "all": bool(request.GET.get("all")),
    }
    return render(request, "runs/listing/bulk.html", context | more, status=status)
