"""The API of a run's checkpoints."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from checkpoints.records import CheckpointFilter
from wfdash.actions import checkpoints
from wfdash.actions.runs import bulk
from wfdash.queries.checkpoints.checkpoint import read_checkpoint, read_editing
from wfdash.queries.checkpoints.compare import compare_checkpoints
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.history import read_checkpoints
from wfdash.queries.runs.values import read_replay
from wfdash.records.base import Created
from wfdash.records.checkpoints import (
    CheckpointComparison,
    CheckpointDetail,
    CheckpointPage,
    CheckpointPreview,
    ContinueFrom,
    EditableParts,
    PreviewOrder,
    ReplayRecord,
    SetLabel,
)
from wfdash.web.api.params import Cursor, Limit, Seq, key_of, viewer_of

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
    bulk.delete_checkpoint(viewer_of(request), run_id, checkpoint_id, key=key_of(request))
    return Status(204, None)


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/label", response=Created)
def label_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str, given: SetLabel) -> Any:
    """Set its label, or remove it."""
    chosen = checkpoints.label_checkpoint(viewer_of(request), run_id, checkpoint_id, given.label, key=key_of(request))
    return {"id": chosen.pk, "n": chosen.n}


# The API of the time machine: compare, replay, preview, restore and fork with edits or without.


@router.get("/runs/{run_id}/compare", response=CheckpointComparison)
def compare(request: HttpRequest, run_id: str, a: str, b: str) -> Any:
    """Return the differences from checkpoint ``a`` to ``b``: each a number in this run, or an id or address of any
    run's.
    """
    return compare_checkpoints(viewer_of(request), run_id, a, b)


MAX_MOVES = 10_000


@router.get("/runs/{run_id}/at/{seq}", response=ReplayRecord)
def replay(request: HttpRequest, run_id: str, seq: Seq) -> Any:
    """Return the run as it was after event ``seq``: steps, open requests, last events, nearest checkpoint. Nothing
    runs.
    """
    found = read_replay(viewer_of(request), run_id, seq)
    return found.model_copy(update={"moves": found.moves[-MAX_MOVES:]})


@router.get("/runs/{run_id}/checkpoints/{checkpoint_id}/edits", response=EditableParts)
def editing(request: HttpRequest, run_id: str, checkpoint_id: str) -> Any:
    """Return what may be edited: the state's schema, messages in progress, pending requests; or why nothing may."""
    return read_editing(viewer_of(request), run_id, checkpoint_id)


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/preview", response=CheckpointPreview)
def preview(request: HttpRequest, run_id: str, checkpoint_id: str, given: PreviewOrder) -> Any:
    """Return what restoring or forking would do, with or without edits. Changes nothing. 422 for invalid edits."""
    viewer = viewer_of(request)
    return read_preview(viewer, run_id, checkpoint_id, verb=given.verb, edits=given.edits)


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/restore", response=Created)
def restore_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ContinueFrom | None = None) -> Any:
    """Make it the run's head again and return the new head. 409 once the run has moved on since ``seen``."""
    change = given or ContinueFrom()
    head = checkpoints.restore_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return {"id": head.pk, "n": head.n}


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/fork", response={201: Created})
def fork_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ContinueFrom | None = None) -> Any:
    """Start a new run from it. 409 if more would happen twice than ``seen`` said."""
    change = given or ContinueFrom()
    run = checkpoints.fork_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return Status(201, {"id": run.pk, "n": run.n})
