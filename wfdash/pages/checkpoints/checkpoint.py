"""One checkpoint: its content, its difference to another, its label, and the preview of restoring or forking it."""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.actions.checkpoints.restore import fork_run, label_checkpoint, restore_run
from wfdash.contract import Edits
from wfdash.errors import Changed, Invalid, NotFound
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.pages.ui.diff import diff_values
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.transcript import diff_transcripts, draw_talk
from wfdash.queries.checkpoints.checkpoint import CheckpointView, read_checkpoint, steps_at_work
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.history.events import read_checkpoints
from wfdash.queries.runs.listing import read_run
from wfdash.records.checkpoints import CheckpointPreview
from wfdash.rendering import render

DONE_MESSAGES = {
    "restore": "Restored checkpoint {chosen} (new checkpoint {n}).",
    "fork": "Forked. The original run is unchanged.",
}
DOES = {
    "runs": "restarts immediately",
    "waits": "waits for people, then restarts",
    "sleeps": "sleeps, then restarts",
    "retries": "is retried",
    "queues": "runs when a slot is free",
}


@page("GET")
def checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show a checkpoint; ``against`` names another one of the run to compare with, by default its parent."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    chosen = read_checkpoint(viewer, run_id, checkpoint_id)
    rail = read_checkpoints(viewer, run_id, before=chosen.info.n + 26, limit=50)
    other = _other(viewer, run_id, chosen, request.GET.get("against", ""))
    context = {
        "run": run,
        "chosen": chosen,
        "row": next((row for row in rail.rows if row.info.id == chosen.info.id), None),
        "rail": rail,
        "talk": draw_talk(chosen.transcript, until=number_in(request.GET.get("until", "")) or None),
        "at_work": steps_at_work(chosen),
        "other": other,
        "key": token_urlsafe(12),
        **_changes(other, chosen),
    }
    return render(request, "checkpoints/page.html", context)


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
    """Set the checkpoint's label, or remove it, and redirect to it."""
    try:
        key = request.POST.get("_key") or None
        label_checkpoint(viewer_of(request), run_id, checkpoint_id, request.POST.get("label", ""), key=key)
    except Invalid as error:
        messages.warning(request, str(error.errors[0]["msg"]))
    return redirect("wfdash:checkpoint", run_id, checkpoint_id)


def _act(request: HttpRequest, run_id: str, checkpoint_id: str, verb: str) -> HttpResponse:
    if request.method != "POST":
        return show_preview(request, run_id, checkpoint_id, verb)
    try:
        return apply_verb(request, run_id, checkpoint_id, verb)
    except Changed as error:
        return show_preview(request, run_id, checkpoint_id, verb, problem=str(error))


def apply_verb(
    request: HttpRequest, run_id: str, checkpoint_id: str, verb: str, edits: Edits | None = None
) -> HttpResponse:
    """Restore or fork as confirmed in a preview, and redirect to the run; ``Changed`` if it has moved on since."""
    call = restore_run if verb == "restore" else fork_run
    seen, key = request.POST.get("_seen", ""), request.POST.get("_key") or None
    done: Any = call(viewer_of(request), run_id, checkpoint_id, edits=edits, seen=seen, key=key)
    chosen = read_checkpoint(viewer_of(request), run_id, checkpoint_id).number
    messages.success(request, DONE_MESSAGES[verb].format(n=done.n, chosen=chosen))
    return redirect("wfdash:run", done.run_id if verb == "restore" else done.pk)


def show_preview(
    request: HttpRequest,
    run_id: str,
    checkpoint_id: str,
    verb: str,
    *,
    edits: Edits | None = None,
    problem: str = "",
) -> HttpResponse:
    """Render the preview of an action with its button; 409 with the ``problem`` of the last attempt."""
    viewer = viewer_of(request)
    found = read_preview(viewer, run_id, checkpoint_id, verb=verb, edits=edits)
    context: dict[str, Any] = {
        "run": read_run(viewer, run_id),
        "preview": found,
        "again": [(one, DOES[one.does]) for one in found.again],
        "may_ask": _may_ask(found),
        "changes": [(one, diff_values(one.before, one.after)) for one in found.changes],
        "verb": verb,
        "edits": edits,
        "edits_text": edits.model_dump_json() if edits else "",
        "key": token_urlsafe(12),
        "changed": problem,
    }
    return render(request, "checkpoints/preview.html", context, status=409 if problem else 200)


def _may_ask(found: CheckpointPreview) -> list[str]:
    """Return the steps that ask people and run again, or may afterwards: their questions are known only then."""
    entry = next((entry for entry in catalog.entries() if entry.name == found.chosen.workflow), None)
    if entry is None:
        return []
    titles = {info.name: info.title or step_label(info.name) for info in entry.description.steps if info.person}
    reached = dict.fromkeys([one.step for one in found.again if one.afresh or one.does == "runs"])
    left = list(reached)
    while left:
        here = left.pop(0)
        for edge in entry.description.edges:
            if edge.source == here and edge.target not in reached:
                reached[edge.target] = None
                left.append(edge.target)
    return [titles[name] for name in dict.fromkeys([*reached, *found.repeats]) if name in titles]


def _other(viewer: Viewer, run_id: str, chosen: CheckpointView, against: str) -> CheckpointView | None:
    if against:
        return read_checkpoint(viewer, run_id, against)
    if not chosen.info.parent or not chosen.parent_run:
        return None
    try:
        return read_checkpoint(viewer, chosen.parent_run, chosen.info.parent)
    except NotFound:
        return None


def _changes(other: CheckpointView | None, chosen: CheckpointView) -> dict[str, Any]:
    """Return what differs: in the state, in the inputs of steps in progress, in the conversation."""
    if other is None:
        return {}
    return {
        "changes": diff_values({"state": other.state}, {"state": chosen.state}),
        "input_changes": diff_values(dict(other.inputs), dict(chosen.inputs)),
        "talk_changes": diff_transcripts(other.transcript, chosen.transcript),
    }
