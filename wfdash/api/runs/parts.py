"""The API of a run's parts: steps, log, values, tags."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router

from wfdash.actions.runs.tags import tag_runs
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.params import Cursor, Limit
from wfdash.queries.runs.listing import read_run
from wfdash.queries.runs.logs import LogFilter, find_logs
from wfdash.queries.runs.steps import read_activations
from wfdash.queries.runs.values import read_run_values
from wfdash.queries.workflows.catalogue import description_of
from wfdash.records.run_parts import LogRecordPage, RunPart, SetTags, StepPage, TagList, ValueRecord

router = Router()


@router.get("/runs/{run_id}/steps", response=StepPage)
def list_steps(
    request: HttpRequest, run_id: str, step: str = "", state: str = "", after: str = "", limit: Limit = 100
) -> Any:
    """Return the executions of a step, or of every one, in the order in which they started."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    described = description_of(run.workflow, run.version)
    steps = [step] if step else [one.name for one in described.steps] if described else []
    found = read_activations(viewer, run_id, steps, state=state, after=after, limit=limit)
    return {"items": found.rows, "next": found.after, "total": found.matching}


@router.get("/runs/{run_id}/logs", response=LogRecordPage)
def list_logs(
    request: HttpRequest,
    run_id: str,
    q: str = "",
    step: str = "",
    activation: str = "",
    level: Literal["", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "",
    after: Cursor = "",
    limit: Limit = 300,
) -> Any:
    """Return log records with ``seq > after``, oldest first. ``level``: of this level and above."""
    wanted = LogFilter(step=step, activation=activation, level=level, text=q)
    found = find_logs(viewer_of(request), run_id, wanted, after=int(after or 0), limit=limit)
    last = found.records[-1].seq if found.records else after
    return {"items": found.records, "next": str(last)}


@router.get("/runs/{run_id}/values/{part}", response=ValueRecord)
def get_values(request: HttpRequest, run_id: str, part: RunPart) -> Any:
    """Return a part of a run's present values. 403 for people who may not inspect them."""
    found = read_run_values(viewer_of(request), run_id, part)
    return {**vars(found), "checkpoint": found.info.id if found.info else None}


@router.post("/runs/{run_id}/tags", response=TagList)
def tag_run(request: HttpRequest, run_id: str, given: SetTags) -> Any:
    """Add tags and remove others. 422 names a tag that is not valid."""
    viewer = viewer_of(request)
    tag_runs(viewer, [run_id], given.add, given.remove, key=key_of(request))
    return {"tags": read_run(viewer, run_id).tags}
