"""The API of a run's checkpoints: compare, replay, preview, restore and fork with edits or without, label."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import Field, TypeAdapter

from wfdash import actions, queries
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.bodies import Body
from wfdash.api.schemas import Created
from wfdash.contract import Edits

router = Router()
Seq = Annotated[int, Field(ge=0, lt=2**63)]
PREVIEW = TypeAdapter(queries.Preview)
REPLAY = TypeAdapter(queries.ReplayView)
EDITING = TypeAdapter(queries.Editing)


class ChangeIn(Body):
    """How to continue from a checkpoint. ``seen``: the ``mark`` of the preview that was shown; empty: none was.

    ``edits``: ``state`` (the whole new one), ``messages`` (activation -> message), ``answers`` (request key -> answer),
    ``reason``; null: without edits.
    """

    edits: Edits | None = None
    seen: str = ""


class PreviewIn(Body):
    """What to preview."""

    verb: Literal["restore", "fork"] = "restore"
    edits: Edits | None = None


class LabelIn(Body):
    """A label; empty removes it."""

    label: str = ""


class MovedOut(Schema):
    """A step whose counts of activations by state differ."""

    step: str
    before: dict[str, int]
    after: dict[str, int]


class AskedOut(Schema):
    """A request that is pending in one of the two only, or in both with different cards."""

    key: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class CompareOut(Schema):
    """The differences. ``patch``: RFC 6902, from state to state; ``body_patch``: from body to body."""

    before: dict[str, Any]
    after: dict[str, Any]
    moved: list[MovedOut]
    asked: list[AskedOut]
    patch: list[dict[str, Any]]
    body_patch: list[dict[str, Any]]
    problem: str


@router.get("/runs/{run_id}/compare", response=CompareOut)
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
def preview(request: HttpRequest, run_id: str, checkpoint_id: str, given: PreviewIn) -> Any:
    """Return what restoring or forking would do, with or without edits. Changes nothing. 422 for invalid edits."""
    viewer = viewer_of(request)
    found = queries.preview(viewer, run_id, checkpoint_id, verb=given.verb, edits=given.edits)
    return PREVIEW.dump_python(found, mode="json")


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/restore", response=Created)
def restore_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ChangeIn | None = None) -> Any:
    """Make it the run's head again and return the new head. 409 once the run has moved on since ``seen``."""
    change = given or ChangeIn()
    head = actions.restore_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return {"id": head.pk, "n": head.n}


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/fork", response={201: Created})
def fork_run(request: HttpRequest, run_id: str, checkpoint_id: str, given: ChangeIn | None = None) -> Any:
    """Start a new run from it. 409 if more would happen twice than ``seen`` said."""
    change = given or ChangeIn()
    run = actions.fork_run(
        viewer_of(request), run_id, checkpoint_id, edits=change.edits, seen=change.seen, key=key_of(request)
    )
    return Status(201, {"id": run.pk, "n": run.n})


@router.post("/runs/{run_id}/checkpoints/{checkpoint_id}/label", response=Created)
def label_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str, given: LabelIn) -> Any:
    """Set its label, or remove it."""
    chosen = actions.label_checkpoint(viewer_of(request), run_id, checkpoint_id, given.label, key=key_of(request))
    return {"id": chosen.pk, "n": chosen.n}
