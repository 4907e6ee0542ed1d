"""The API of the time machine: compare, replay, preview, restore and fork with edits or without."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status
from pydantic import TypeAdapter

from wfdash import actions, queries
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.params import Seq
from wfdash.records import CheckpointComparison, ContinueFrom, Created, PreviewOrder

router = Router()
PREVIEW = TypeAdapter(queries.Preview)
REPLAY = TypeAdapter(queries.ReplayView)
EDITING = TypeAdapter(queries.Editing)


@router.get("/runs/{run_id}/compare", response=CheckpointComparison)
def compare(request: HttpRequest, run_id: str, a: str, b: str) -> Any:
    """Return the differences from checkpoint ``a`` to ``b``: each a number in this run, or an id or address of any
    run's.
    """
    found = queries.compare(viewer_of(request), run_id, a, b)
    return {
        "before": found.before.info.model_dump(mode="json"),
        "after": found.after.info.model_dump(mode="json"),
        "moved": [{"step": one.step, "before": vars(one.before), "after": vars(one.after)} for one in found.moved],
        "asked": [
            {
                "key": one.key,
                "before": one.before.model_dump(mode="json") if one.before else None,
                "after": one.after.model_dump(mode="json") if one.after else None,
            }
            for one in found.asked
        ],
        "patch": list(found.patch),
        "body_patch": list(found.body_patch),
        "problem": found.problem,
    }


@router.get("/runs/{run_id}/at/{seq}", response=dict[str, Any])
def replay(request: HttpRequest, run_id: str, seq: Seq) -> Any:
    """Return the run as it was after event ``seq``: steps, open requests, last events, nearest checkpoint. Nothing
    runs.
    """
    return REPLAY.dump_python(queries.replay(viewer_of(request), run_id, seq), mode="json")


@router.get("/runs/{run_id}/checkpoints/{checkpoint_id}/edits", response=dict[str, Any])
def editing(request: HttpRequest, run_id: str, checkpoint_id: str) -> Any:
    """Return what may be edited: the state's schema, messages in progress, pending requests; or why nothing may."""
    found = EDITING.dump_python(queries.editing(viewer_of(request), run_id, checkpoint_id), mode="json")
    return {name: value for name, value in found.items() if name != "chosen"}


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/preview", response=dict[str, Any])
def preview(request: HttpRequest, run_id: str, checkpoint_id: str, given: PreviewOrder) -> Any:
    """Return what restoring or forking would do, with or without edits. Changes nothing. 422 for invalid edits."""
    viewer = viewer_of(request)
    found = queries.preview(viewer, run_id, checkpoint_id, verb=given.verb, edits=given.edits)
    return PREVIEW.dump_python(found, mode="json")


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/restore", response=Created)
def restore_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ContinueFrom | None = None) -> Any:
    """Make it the run's head again and return the new head. 409 once the run has moved on since ``seen``."""
    change = given or ContinueFrom()
    head = actions.restore_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return {"id": head.pk, "n": head.n}


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/fork", response={201: Created})
def fork_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ContinueFrom | None = None) -> Any:
    """Start a new run from it. 409 if more would happen twice than ``seen`` said."""
    change = given or ContinueFrom()
    run = actions.fork_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return Status(201, {"id": run.pk, "n": run.n})
