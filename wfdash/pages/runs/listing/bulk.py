"""One verb for many runs: a page that says what it would do, one POST that has it done, a page that tells of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.actions.runs.bulk import MOST_AT_ONCE, UNEXPECTED, continue_bulk, find_bulk, preview_bulk, start_bulk
from wfdash.errors import Invalid, KeyReused
from wfdash.pages.runs.actions import new_key
from wfdash.pages.runs.listing.page import listed_runs
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.site.list_address import COLUMNS, RunsAddress
from wfdash.pages.ui.fragments import respond
from wfdash.queries.run_names import titles_of
from wfdash.queries.runs.listing import all_ids, run_rows
from wfdash.rendering import render

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
PAGE = 50
RESULT_COLUMNS = ("status", "progress", "started", "took")
FRAGMENTS = {"told": "runs/listing/progress.html", "news": "runs/listing/news.html"}


@page("GET", "POST")
def bulk(request: HttpRequest) -> HttpResponse:
    """Say what a ``verb`` would do to the runs named by ``run``, or with ``all`` to all that ``q`` finds."""
    viewer = viewer_of(request)
    if request.method == "POST":
        return _begin(request, viewer)
    verb, text = request.GET.get("verb", ""), request.GET.get("q", "").strip()
    try:
        ids = _chosen(request, viewer, text)
        found = preview_bulk(viewer, verb, ids)
    except Invalid as error:
        return _page(request, viewer, verb, text, {"problem": error.summary}, status=422)
    return _page(request, viewer, verb, text, {"found": found, "runs": " ".join(found.runs)})


@page("GET", "POST")
def bulk_result(request: HttpRequest, bulk_id: str) -> HttpResponse:
    """Show the progress, why runs are unchanged, and its runs as they are now; a POST continues with the rest."""
    viewer = viewer_of(request)
    row = find_bulk(viewer, bulk_id)
    if request.method == "POST":
        continue_bulk(row.pk)
        return redirect("wfdash:runs-told", row.pk)
    if request.GET.get("fragment") == "news":
        return respond(request, "runs/listing/told.html", _news_context(request, row), FRAGMENTS)
    return respond(request, "runs/listing/told.html", _result_context(request, row), FRAGMENTS)


def _result_context(request: HttpRequest, row: Any) -> dict[str, Any]:
    """Return how far it is, why runs are unchanged, and its runs as they are now, in pages."""
    number = page_number(request.GET.get("page", ""), -(-len(row.runs) // PAGE))
    shown = row.runs[(number - 1) * PAGE : number * PAGE]
    why: dict[str, int] = row.refused.get("why", {})
    failed = why.get(UNEXPECTED, 0)
    return {
        "bulk": row,
        "of": len(row.runs),
        "verb": DONE_MESSAGES[row.verb],
        "stays": sorted(why.items(), key=lambda item: -item[1]),
        "skipped": sum(why.values()) - failed,
        "failed": failed,
        "some": _refused_runs(request, row),
        "back": RunsAddress(q=str(row.facts.get("filter") or "")).url(),
        "spot": RunsAddress(),
        "now": timezone.now(),
        "first": (number - 1) * PAGE + 1,
        "last": (number - 1) * PAGE + len(shown),
        "newer": f"?page={number - 1}" if number > 1 else "",
        "older": f"?page={number + 1}" if number * PAGE < len(row.runs) else "",
    } | _rows_context(request, shown)


def _rows_context(request: HttpRequest, ids: Sequence[str]) -> dict[str, Any]:
    """Return rows as the list has them, with columns that say what becomes of a run."""
    columns = [(name, COLUMNS[name], name in RESULT_COLUMNS) for name in COLUMNS]
    viewer = viewer_of(request)
    rows = listed_runs(viewer, run_rows(viewer, ids))
    return {
        "rows": rows,
        "columns": columns,
        "shown": dict.fromkeys(RESULT_COLUMNS, True),
        "gone": len(ids) - len(rows),
    }


def _news_context(request: HttpRequest, row: Any) -> dict[str, Any]:
    known = set(row.runs)
    ids = [one for one in request.GET.get("ids", "").split(",") if one in known][:PAGE]
    return _rows_context(request, ids) | {"new": 0, "most": 0}


def _refused_runs(request: HttpRequest, row: Any) -> list[dict[str, str]]:
    refused = row.refused.get("some", [])
    called = titles_of(viewer_of(request), [run for run, _, _ in refused])
    return [{"id": run, "title": called.get(run, title), "problem": problem} for run, title, problem in refused]


def page_number(text: str, most: int) -> int:
    """Return the page an address names, the nearest there is for any other text."""
    return max(1, min(int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1, most))


def _chosen(request: HttpRequest, viewer: Viewer, text: str) -> tuple[str, ...]:
    if request.GET.get("all"):
        return all_ids(viewer, text, MOST_AT_ONCE)
    return tuple(request.GET.getlist("run"))


def _begin(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Act on exactly the runs that the page counted."""
    verb, text = request.POST.get("verb", ""), request.POST.get("q", "").strip()
    ids = request.POST.get("runs", "").split()
    add, remove = (request.POST.get(name, "").replace(",", " ").split() for name in ("add", "remove"))
    try:
        row = start_bulk(viewer, verb, ids, text=text, add=add, remove=remove, key=key_of(request))
    except (Invalid, KeyReused) as error:
        problem = error.summary if isinstance(error, Invalid) else str(error)
        more: dict[str, Any] = {"problem": problem, "typed": request.POST}
        if ids and verb in DONE_MESSAGES:
            more |= {"found": preview_bulk(viewer, verb, ids), "runs": " ".join(ids)}
        return _page(request, viewer, verb, text, more, status=422)
    continue_bulk(row.pk)
    return redirect("wfdash:runs-told", row.pk)


def _page(
    request: HttpRequest, viewer: Viewer, verb: str, text: str, more: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    found = more.get("found")
    shown = run_rows(viewer, found.runs[:MOST_SHOWN]) if found else ()
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
