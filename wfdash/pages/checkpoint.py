"""One checkpoint: its content, how it differs from another, its label, and what restoring or forking it would do."""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.edits import Edits
from wfdash.errors import Changed, Invalid, NotFound
from wfdash.pages.diff import diff_values
from wfdash.pages.door import page, viewer_of

SAID = {
    "restore": "Restored: the run stands at checkpoint {n} and goes on from there.",
    "fork": "Forked: this is the new run. The old one stays as it is.",
}
DOES = {
    "runs": "runs again at once",
    "waits": "waits for people, then runs again",
    "sleeps": "sleeps, then runs again",
    "retries": "is tried again",
    "queues": "runs as soon as there is room",
}


@page("GET")
def checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show a checkpoint; ``against`` names another one of the run to compare with, by default its parent."""
    viewer = viewer_of(request)
    run = queries.run(viewer, run_id)
    chosen = queries.checkpoint(viewer, run_id, checkpoint_id)
    rail = queries.checkpoints(viewer, run_id, before=chosen.info.n + 26, limit=50)
    other = _other(viewer, run_id, chosen, request.GET.get("against", ""))
    context = {
        "run": run,
        "chosen": chosen,
        "row": next((row for row in rail.rows if row.info.id == chosen.info.id), None),
        "rail": rail,
        "other": other,
        "key": token_urlsafe(12),
        **_changes(other, chosen),
    }
    return render(request, "checkpoint/page.html", context)


@page("GET", "POST")
def restore(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what restoring would do; a POST does it."""
    return _act(request, run_id, checkpoint_id, "restore")


@page("GET", "POST")
def fork(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what forking would do; a POST does it and opens the new run."""
    return _act(request, run_id, checkpoint_id, "fork")


@page("POST")
def label(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Give the checkpoint a label, or take it away, and go back to it."""
    try:
        key = request.POST.get("_key") or None
        desk.label_checkpoint(viewer_of(request), run_id, checkpoint_id, request.POST.get("label", ""), key=key)
    except Invalid as error:
        messages.warning(request, str(error.errors[0]["msg"]))
    return redirect("checkpoint", run_id, checkpoint_id)


def _act(request: HttpRequest, run_id: str, checkpoint_id: str, verb: str) -> HttpResponse:
    if request.method != "POST":
        return show_preview(request, run_id, checkpoint_id, verb)
    try:
        return carry_out(request, run_id, checkpoint_id, verb)
    except Changed as error:
        return show_preview(request, run_id, checkpoint_id, verb, problem=str(error))


def carry_out(
    request: HttpRequest, run_id: str, checkpoint_id: str, verb: str, edits: Edits | None = None
) -> HttpResponse:
    """Restore or fork as a confirmed preview said, and open the run; ``Changed`` if it has moved on since."""
    deed = desk.restore_run if verb == "restore" else desk.fork_run
    seen, key = request.POST.get("_seen", ""), request.POST.get("_key") or None
    done: Any = deed(viewer_of(request), run_id, checkpoint_id, edits=edits, seen=seen, key=key)
    messages.success(request, SAID[verb].format(n=done.n))
    return redirect("run", done.run_id if verb == "restore" else done.pk)


def show_preview(
    request: HttpRequest,
    run_id: str,
    checkpoint_id: str,
    verb: str,
    *,
    edits: Edits | None = None,
    problem: str = "",
) -> HttpResponse:
    """Answer with what a verb would do, and the button that does it; 409 with the ``problem`` of the last attempt."""
    viewer = viewer_of(request)
    found = queries.preview(viewer, run_id, checkpoint_id, verb=verb, edits=edits)
    context: dict[str, Any] = {
        "run": queries.run(viewer, run_id),
        "preview": found,
        "again": [(one, DOES[one.does]) for one in found.again],
        "changes": [(one, diff_values(one.before, one.after)) for one in found.changes],
        "verb": verb,
        "edits": edits,
        "edits_text": edits.model_dump_json() if edits else "",
        "key": token_urlsafe(12),
        "changed": problem,
    }
    return render(request, "checkpoint/preview.html", context, status=409 if problem else 200)


def _other(viewer: Viewer, run_id: str, chosen: queries.CheckpointView, against: str) -> queries.CheckpointView | None:
    if against:
        return queries.checkpoint(viewer, run_id, against)
    if not chosen.info.parent or not chosen.parent_run:
        return None
    try:
        return queries.checkpoint(viewer, chosen.parent_run, chosen.info.parent)
    except NotFound:
        return None


def _changes(other: queries.CheckpointView | None, chosen: queries.CheckpointView) -> dict[str, Any]:
    """Return what differs: in the workflow's own state, and in what the engine keeps to go on."""
    found = diff_values(_content(other), _content(chosen)) if other else ()
    return {
        "changes": [change for change in found if change.path[:1] == ("state",)],
        "inner_changes": [change for change in found if change.path[:1] != ("state",)],
    }


def _content(view: queries.CheckpointView) -> dict[str, Any]:
    return {"state": view.state, "position": view.position, **view.rest}
