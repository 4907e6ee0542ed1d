"""The API of the time machine: compare, replay, preview, restore and fork with edits or without."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.actions.checkpoints import restore
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.params import Seq
from wfdash.queries.checkpoints.compare import compare_checkpoints
from wfdash.queries.checkpoints.editing import read_editing
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.runs.replay import read_replay
from wfdash.records.base import Created
from wfdash.records.checkpoints import CheckpointComparison, ContinueFrom, PreviewOrder
from wfdash.records.time_machine import CheckpointPreview, EditableParts, ReplayRecord

router = Router()


@router.get("/runs/{run_id}/compare", response=CheckpointComparison)
def compare(request: HttpRequest, run_id: str, a: str, b: str) -> Any:
    """Return the differences from checkpoint ``a`` to ``b``: each a number in this run, or an id or address of any
    run's.
    """
    return compare_checkpoints(viewer_of(request), run_id, a, b)


@router.get("/runs/{run_id}/at/{seq}", response=ReplayRecord)
def replay(request: HttpRequest, run_id: str, seq: Seq) -> Any:
    """Return the run as it was after event ``seq``: steps, open requests, last events, nearest checkpoint. Nothing
    runs.
    """
    return read_replay(viewer_of(request), run_id, seq)


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
    head = restore.restore_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return {"id": head.pk, "n": head.n}


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/fork", response={201: Created})
def fork_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ContinueFrom | None = None) -> Any:
    """Start a new run from it. 409 if more would happen twice than ``seen`` said."""
    change = given or ContinueFrom()
    run = restore.fork_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return Status(201, {"id": run.pk, "n": run.n})
