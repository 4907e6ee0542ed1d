"""The comparison of two checkpoints of one workflow: state, step states and pending requests."""

from __future__ import annotations

import re
from typing import Any

from checkpoints import models
from checkpoints.database.runs import info_of
from checkpoints.records import CheckpointInfo, Json, Request
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import Invalid, NotFound
from wfdash.domain.json_patch import Differ, make, same
from wfdash.queries.checkpoints.checkpoint import CheckpointView, read_checkpoint
from wfdash.queries.history import ranges_to, workflow_of
from wfdash.queries.step_states import counts_within
from wfdash.queries.timemachine import shown_json
from wfdash.queries.unreadable import masked_for
from wfdash.records.checkpoints import (
    ChangedRequest,
    CheckpointComparison,
    CheckpointRecord,
    MovedStep,
    PendingRequest,
    StateCounts,
)

MAX_COMPARED_BYTES = 16_000_000
"""Maximum size in bytes of both together for a comparison."""
ADDRESS = re.compile(r"checkpoints/([0-9A-Za-z-]+)")


class Comparison(CheckpointComparison):
    """The differences between two checkpoints, with what pages show of both. ``inputs``: of the runs, if they differ.

    ``problem`` says why nothing is compared, ``note`` why the values are not.
    """

    old: CheckpointView
    new: CheckpointView
    inputs: tuple[Json, Json] | None = None

    @property
    def address(self) -> str:
        """Return the start of the query string of its raw patch, without the kind."""
        return f"?a={self.before.id}&b={self.after.id}&raw="

    @property
    def ends(self) -> tuple[tuple[str, CheckpointView], ...]:
        """Return both checkpoints with their labels."""
        return (("From", self.old), ("To", self.new))


def compare_checkpoints(
    viewer: Viewer, run_id: str, before: str, after: str, differ: Differ | None = None
) -> Comparison:
    """Return the comparison of two checkpoints, each given as an id, a number in this run, or an address.

    ``differ``: what compares the values for a page, too.
    ``NotFound``, ``NotAllowed`` for those who may not inspect, ``Invalid`` for one of another workflow.
    """
    workflow = workflow_of(viewer, run_id)
    one, other = (_find(viewer, run_id, workflow, text, name) for name, text in (("a", before), ("b", after)))
    if one.size + other.size > MAX_COMPARED_BYTES:
        problem = f"Too large to compare ({one.size + other.size:,} bytes)"
        return _comparison(CheckpointView(info=one), CheckpointView(info=other), problem=problem)
    old, new = read_checkpoint(viewer, one.run, one.id), read_checkpoint(viewer, other.run, other.id)
    if problem := old.problem or new.problem:
        return _comparison(old, new, problem=problem)
    differ = differ or Differ()
    note, patch = old.note or new.note, make(old.state, new.state, differ=differ)
    shown, then = shown_json(old.shown), shown_json(new.shown)
    rest = [step for name in ("transcript", "inputs") for step in make(shown[name], then[name], f"/{name}", differ)]
    return _comparison(
        old,
        new,
        moved=_step_changes(one, other),
        asked=_request_changes(old, new),
        patch=tuple(patch),
        shown_patch=() if note else (*({**step, "path": f"/state{step['path']}"} for step in patch), *rest),
        note=note,
        inputs=_inputs(one.run, other.run),
    )


def _comparison(old: CheckpointView, new: CheckpointView, **found: Any) -> Comparison:
    ends = {"before": CheckpointRecord.of(old.info), "after": CheckpointRecord.of(new.info), "old": old, "new": new}
    return Comparison.trusted(**ends | found)


def _find(viewer: Viewer, run_id: str, workflow: str, text: str, name: str) -> CheckpointInfo:
    """Return the checkpoint that a typed id, number or address names."""
    text = text.strip()
    rows = models.Checkpoint.objects.defer("body")
    address = ADDRESS.search(text)
    if text.isascii() and text.isdigit() and len(text) < 19:
        row = rows.filter(run_id=run_id, n=int(text)).first()
    else:
        row = rows.filter(pk=address.group(1) if address else text[:36]).first()
    if row is None or (row.run_id != run_id and not _may_see(viewer, row.run_id)):
        raise NotFound(f"Checkpoint “{text[:60]}” not found. Enter its number in this run, its ID or its URL")
    if row.workflow != workflow:
        text = f"That checkpoint belongs to workflow {row.workflow}: choose one of the same workflow"
        raise Invalid.at(name, text)
    return info_of(row)


def _may_see(viewer: Viewer, run_id: str) -> bool:
    try:
        return bool(workflow_of(viewer, run_id))
    except NotFound:
        return False


def _inputs(one: str, other: str) -> tuple[Json, Json] | None:
    if one == other:
        return None
    rows = models.Run.objects.filter(pk__in=[one, other]).only("id", "input", "workflow")
    given = {run.pk: masked_for(run.workflow, run.input) for run in rows}
    return None if same(given[one], given[other]) else (given[one], given[other])


def _step_changes(one: CheckpointInfo, other: CheckpointInfo) -> tuple[MovedStep, ...]:
    before, after = counts_within(ranges_to(one.run, one.id)), counts_within(ranges_to(other.run, other.id))
    none = StateCounts()
    steps = dict.fromkeys([*before, *after])
    pairs = ((step, before.get(step, none), after.get(step, none)) for step in steps)
    return tuple(MovedStep.trusted(step=step, before=old, after=new) for step, old, new in pairs if old != new)


def _request_changes(before: CheckpointView, after: CheckpointView) -> tuple[ChangedRequest, ...]:
    old: dict[Json, Request] = {request.key: request for request in before.requests}
    new: dict[Json, Request] = {request.key: request for request in after.requests}
    return tuple(
        ChangedRequest.trusted(key=str(key), before=_pending(old.get(key)), after=_pending(new.get(key)))
        for key in dict.fromkeys([*old, *new])
        if key not in old or key not in new or old[key].card != new[key].card
    )


def _pending(request: Request | None) -> PendingRequest | None:
    return PendingRequest.of(request) if request else None
