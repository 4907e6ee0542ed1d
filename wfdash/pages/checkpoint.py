"""One checkpoint: its content, how it differs from another, and what restoring or forking it would do."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.errors import NotFound
from wfdash.pages.diff import diff_values
from wfdash.pages.door import page, viewer_of


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
        "rail": rail,
        "other": other,
        **_changes(other, chosen),
    }
    return render(request, "checkpoint/page.html", context)


@page("GET", "POST")
def restore(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what restoring would do; a POST does it."""
    viewer = viewer_of(request)
    if request.method == "POST":
        head = desk.restore_run(viewer, run_id, checkpoint_id)
        messages.success(request, f"Restored: the run stands at checkpoint {head.n} and goes on from there.")
        return redirect("run", run_id)
    return _preview(request, viewer, run_id, checkpoint_id, "restore")


@page("GET", "POST")
def fork(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what forking would do; a POST does it and opens the new run."""
    viewer = viewer_of(request)
    if request.method == "POST":
        run = desk.fork_run(viewer, run_id, checkpoint_id)
        messages.success(request, "Forked: this is the new run. The old one stays as it is.")
        return redirect("run", run.pk)
    return _preview(request, viewer, run_id, checkpoint_id, "fork")


def _preview(request: HttpRequest, viewer: Viewer, run_id: str, checkpoint_id: str, verb: str) -> HttpResponse:
    context: dict[str, Any] = {
        "run": queries.run(viewer, run_id),
        "preview": queries.preview(viewer, run_id, checkpoint_id),
        "verb": verb,
    }
    return render(request, "checkpoint/preview.html", context)


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
