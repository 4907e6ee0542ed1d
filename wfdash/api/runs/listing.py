"""The API of runs: list, start, read and delete them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.actions.hooks.callbacks import start_with_callback
from wfdash.actions.runs import delete, lifecycle
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.params import Limit, Wait
from wfdash.long_poll import say_later
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.records.base import Created
from wfdash.records.runs import RunDetail, RunPage, StartRun
from wfdash.records.workflows import CheckedMessage
from wfdash.telemetry import tracing

router = Router()


@router.get("/runs", response=RunPage)
def list_runs(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 30) -> Any:
    """Return runs, newest first; ``q`` is the filter language of the runs page."""
    return read_runs(viewer_of(request), q, cursor=after, limit=limit)


@router.post("/runs", response={201: Created})
def start_run(request: HttpRequest, given: StartRun) -> Any:
    """Start a run. 422 with errors per field when the message does not match."""
    viewer, key = viewer_of(request), key_of(request) or given.key
    if given.callback is None:
        run = lifecycle.start_run(viewer, given.workflow, given.message, key=key)
    else:
        run = start_with_callback(viewer, given.workflow, given.message, given.callback, key=key)
    tracing.started(run.pk, run.workflow, request.headers)
    return Status(201, {"id": run.pk})


@router.post("/runs/check", response=CheckedMessage)
def check_start(request: HttpRequest, given: StartRun) -> Any:
    """Check a message as a start would, and start nothing. 422 with errors per field when it does not match."""
    return {"message": lifecycle.check_start(viewer_of(request), given.workflow, given.message)}


@router.get("/runs/{run_id}", response=RunDetail)
def get_run(request: HttpRequest, run_id: str, wait: Wait = 0) -> Any:
    """Return one run with its open requests. ``wait``: at most so many seconds until it rests (see ``rests``)."""
    found = read_run(viewer_of(request), run_id)
    if wait and not found.rests:
        say_later(request, found.id, wait)
    return found


@router.delete("/runs/{run_id}", response={204: None})
def delete_run(request: HttpRequest, run_id: str) -> Any:
    """Delete an ended run with everything it has; its audit entries stay. 409 while it has not ended."""
    delete.delete_run(viewer_of(request), run_id, key=key_of(request))
    return Status(204, None)
