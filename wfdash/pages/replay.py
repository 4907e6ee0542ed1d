"""A run as it looked after one of its events. Nothing is executed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from wfdash import queries
from wfdash.pages.door import page, viewer_of
from wfdash.pages.fragments import event_line
from wfdash.pages.graph import layout, travelled

STATUS = {
    "run.waiting": "waiting",
    "run.sleeping": "sleeping",
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
    "run.paused": "paused",
    "run.held": "held",
    "run.queued": "queued",
}
"""What the last word about the run as a whole said of it; whatever else it was, the run was going on."""


@page("GET")
def replay(request: HttpRequest, run_id: str, seq: int) -> HttpResponse:
    """Show the run after event ``seq``; ``seq`` in the query goes to another one."""
    wanted = request.GET.get("seq", "")
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:
        return redirect("replay", run_id, int(wanted))
    viewer = viewer_of(request)
    run = queries.run(viewer, run_id)
    found = queries.replay(viewer, run_id, seq)
    described = queries.description_of(run.workflow, found.checkpoint.version if found.checkpoint else run.version)
    state = queries.checkpoint(viewer, run_id, found.checkpoint.id) if found.checkpoint and run.inspect else None
    context = {
        "run": run,
        "found": found,
        "status": STATUS.get(found.status, "running"),
        "drawing": layout(described, found.board, travelled(described.edges, found.moves)) if described else None,
        "lines": [event_line(event, inspect=run.inspect) for event in reversed(found.events)],
        "line": event_line(found.event, inspect=run.inspect),
        "state": state,
    }
    return render(request, "checkpoint/replay.html", context)
