"""A run as it looked after one of its events. Nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from checkpoints.events import EventKind
from wfdash.contract import Description
from wfdash.pages.runs.graph import draw
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.ui.fragments import event_row_of
from wfdash.pages.ui.graph import Drawing, opened_in
from wfdash.queries.checkpoints.checkpoint import read_checkpoint
from wfdash.queries.runs.listing import read_run
from wfdash.queries.runs.replay import ReplayView, read_replay
from wfdash.queries.workflows import description_of
from wfdash.rendering import render

STATUS: Mapping[str, str] = {
    EventKind.RUN_WAITING: "waiting",
    EventKind.RUN_SLEEPING: "sleeping",
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_PAUSED: "paused",
    EventKind.RUN_HELD: "held",
    EventKind.RUN_QUEUED: "queued",
}
"""The status of a run by its last event about the run as a whole; after any other kind it was running."""


@page("GET")
def replay(request: HttpRequest, run_id: str, seq: int) -> HttpResponse:
    """Show the run after event ``seq``; ``seq`` in the query goes to another one."""
    wanted = request.GET.get("seq", "")
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:
        return redirect(_address(run_id, int(wanted), request.GET.get("unfold", "")))
    viewer, opened = viewer_of(request), opened_in(request.GET.get("unfold", ""))
    run = read_run(viewer, run_id)
    found = read_replay(viewer, run_id, seq)
    described = description_of(run.workflow, found.checkpoint.version if found.checkpoint else run.version)
    state = read_checkpoint(viewer, run_id, found.checkpoint.id) if found.checkpoint and run.inspect else None
    context = {
        "run": run,
        "found": found,
        "status": STATUS.get(found.status, "running"),
        "drawing": _draw(run_id, seq, described, found, opened) if described else None,
        "opened": opened,
        "unfold": ",".join(opened),
        "lines": [
            event_row_of(event, inspect=run.inspect, start=run.created, workflow=run.workflow)
            for event in reversed(found.events)
        ],
        "line": event_row_of(found.event, inspect=run.inspect, start=run.created, workflow=run.workflow),
        "state": state,
    }
    return render(request, "checkpoints/replay.html", context)


def _draw(run_id: str, seq: int, described: Description, found: ReplayView, opened: tuple[str, ...]) -> Drawing:
    """Return the graph as it was; a step leads to its panel on the run's page, a folded part opens here."""

    def link(step: str = "", unfold: str | None = None) -> str:
        if unfold is not None:
            return _address(run_id, seq, unfold) + "#replay-graph"
        return f"{reverse('wfdash:run', args=[run_id])}?{urlencode({'step': step})}#run-step"

    return draw(described, found.moves, found.board, {}, link=link, opened=opened, live=False)


def _address(run_id: str, seq: int, unfold: str) -> str:
    query = f"?{urlencode({'unfold': unfold})}" if unfold else ""
    return reverse("wfdash:replay", args=[run_id, seq]) + query
