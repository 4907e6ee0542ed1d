"""The API of runs: list, start, read and delete them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash import actions, queries
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.params import Limit
from wfdash.records import Created, RunDetail, RunPage, StartRun
from wfdash.telemetry import tracing

router = Router()


@router.get("/runs", response=RunPage)
def list_runs(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 30) -> Any:
    """Return runs, newest first; ``q`` is the filter language of the runs page."""
    return queries.runs(viewer_of(request), q, cursor=after, limit=limit)


@router.post("/runs", response={201: Created})
def start_run(request: HttpRequest, given: StartRun) -> Any:
    """Start a run. 422 with errors per field when the message does not match."""
    run = actions.start_run(viewer_of(request), given.workflow, given.message, key=key_of(request) or given.key)
    tracing.started(run.pk, run.workflow, request.headers)
    return Status(201, {"id": run.pk})


@router.get("/runs/{run_id}", response=RunDetail)
def get_run(request: HttpRequest, run_id: str) -> Any:
    """Return one run."""
    return queries.run(viewer_of(request), run_id)


@router.delete("/runs/{run_id}", response={204: None})
def delete_run(request: HttpRequest, run_id: str) -> Any:
    """Delete an ended run with everything it has; its audit entries stay. 409 while it has not ended."""
    actions.delete_run(viewer_of(request), run_id, key=key_of(request))
    return Status(204, None)
