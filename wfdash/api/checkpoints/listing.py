"""The API of checkpoints: list, read, label and delete them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from checkpoints.records import CheckpointFilter
from wfdash.actions.checkpoints import restore
from wfdash.actions.runs import delete
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.params import Cursor, Limit
from wfdash.queries.checkpoints.checkpoint import read_checkpoint
from wfdash.queries.history.events import read_checkpoints
from wfdash.records.base import Created
from wfdash.records.checkpoints import CheckpointDetail, CheckpointPage, SetLabel

router = Router()


@router.get("/runs/{run_id}/checkpoints", response=CheckpointPage)
def list_checkpoints(
    request: HttpRequest, run_id: str, where: Query[CheckpointFilter], after: Cursor = "", limit: Limit = 50
) -> Any:
    """Return the run's checkpoints, newest first, without content; ``total`` is the number that matches the filters."""
    rail = read_checkpoints(viewer_of(request), run_id, before=int(after or 0), limit=limit, where=where)
    items = [{**vars(row.info), "lane": row.lane, "head": row.head, "by": row.by} for row in rail.rows]
    return {"items": items, "total": rail.total, "next": str(rail.before or "")}


@router.get("/runs/{run_id}/checkpoints/{checkpoint_id}", response=CheckpointDetail)
def get_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> Any:
    """Return one checkpoint with its content."""
    view = read_checkpoint(viewer_of(request), run_id, checkpoint_id)
    content = {"requests": view.requests, "problem": view.problem, "note": view.note}
    return {**vars(view.info), **vars(view.shown), **content}


@router.delete("/runs/{run_id}/checkpoints/{checkpoint_id}", response={204: None})
def delete_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> Any:
    """Delete a checkpoint that is not needed. 409 for what the run would continue from, and for one with a label."""
    delete.delete_checkpoint(viewer_of(request), run_id, checkpoint_id, key=key_of(request))
    return Status(204, None)


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/label", response=Created)
def label_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str, given: SetLabel) -> Any:
    """Set its label, or remove it."""
    chosen = restore.label_checkpoint(viewer_of(request), run_id, checkpoint_id, given.label, key=key_of(request))
    return {"id": chosen.pk, "n": chosen.n}
