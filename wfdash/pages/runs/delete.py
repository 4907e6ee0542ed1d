"""Deleting a run or one checkpoint: a page that lists what is deleted and what stays, and the POST that does it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from wfdash.actions.runs import delete
from wfdash.errors import WrongState
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.queries.checkpoints.checkpoint import read_checkpoint
from wfdash.queries.runs.before_acting import contents_of
from wfdash.queries.runs.listing import read_run
from wfdash.rendering import render


@page("GET", "POST")
def delete_run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what is deleted with a run. A POST deletes it and redirects to the list."""
    viewer = viewer_of(request)
    if request.method != "POST":
        context = {"run": read_run(viewer, run_id), "held": contents_of(viewer, run_id)}
        return render(request, "runs/actions/delete.html", context)
    try:
        delete.delete_run(viewer, run_id, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
        return redirect("wfdash:run", run_id)
    messages.success(request, "Run deleted. Its audit entries are kept.")
    return redirect("wfdash:runs")


@page("GET", "POST")
def delete_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Ask whether to delete a checkpoint. A POST does and redirects to the run's checkpoints, or says why it is
    refused.
    """
    viewer = viewer_of(request)
    if request.method != "POST":
        found = read_checkpoint(viewer, run_id, checkpoint_id)
        contents_of(viewer, run_id)
        context = {"run": read_run(viewer, run_id), "info": found.info}
        return render(request, "checkpoints/delete.html", context)
    try:
        delete.delete_checkpoint(viewer, run_id, checkpoint_id, key=key_of(request))
    except WrongState as error:
        messages.warning(request, str(error))
        return redirect("wfdash:checkpoint", run_id, checkpoint_id)
    messages.success(request, "Checkpoint deleted.")
    return redirect("wfdash:run-history", run_id)
