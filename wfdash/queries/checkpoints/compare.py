"""The comparison of two checkpoints of one workflow: state, step states and pending requests."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from checkpoints import models
from checkpoints.database.rows import info_of
from checkpoints.records import CheckpointInfo, Json, Request
from wfdash.access.viewer import Viewer
from wfdash.domain.json_patch import Operation, make, same
from wfdash.errors import Invalid, NotFound
from wfdash.queries.checkpoints.checkpoint import CheckpointView, read_checkpoint
from wfdash.queries.history.events import workflow_of
from wfdash.queries.history.lineage import ranges_to
from wfdash.queries.history.step_states import StepCounts, counts_within
from wfdash.queries.secrets import masked_for
from wfdash.timemachine.shown import shown_json

LARGEST = 16_000_000
"""Maximum size in bytes of both together for a comparison."""
ADDRESS = re.compile(r"checkpoints/([0-9A-Za-z-]+)")


@dataclass(frozen=True, kw_only=True)
class StepCountsDiff:
    """A step whose counts of activations by state differ."""

    step: str
    before: StepCounts
    after: StepCounts


@dataclass(frozen=True, kw_only=True)
class RequestChange:
    """A request that is pending in one of the two only, or in both with different cards."""

    key: str
    before: Request | None
    after: Request | None

    @property
    def request(self) -> Request:
        """Return the newer of the two requests."""
        found = self.after or self.before
        if found is None:
            raise AssertionError("a question is pending somewhere")
        return found


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The differences between ``before`` and ``after``.

    ``problem`` says why nothing is compared, ``note`` why the values are not.
    """

    before: CheckpointView
    after: CheckpointView
    moved: tuple[StepCountsDiff, ...] = ()
    asked: tuple[RequestChange, ...] = ()
    patch: tuple[Operation, ...] = ()
    """From the state of ``before`` to that of ``after``."""
    inputs: tuple[Json, Json] | None = None
    """The inputs of the two runs, where they differ."""
    problem: str = ""
    note: str = ""

    @property
    def shown_patch(self) -> tuple[Operation, ...]:
        """Return the patch of all that is shown: state, conversation, inputs of steps in progress."""
        return () if self.problem or self.note else tuple(make(*(shown_json(one.shown) for _, one in self.ends)))

    @property
    def address(self) -> str:
        """Return the start of the query string of its raw patch, without the kind."""
        return f"?a={self.before.info.id}&b={self.after.info.id}&raw="

    @property
    def ends(self) -> tuple[tuple[str, CheckpointView], ...]:
        """Return both checkpoints with their labels."""
        return (("From", self.before), ("To", self.after))


def compare_checkpoints(viewer: Viewer, run_id: str, before: str, after: str) -> Comparison:
    """Return the comparison of two checkpoints, each given as an id, a number in this run, or an address.

    ``NotFound``, ``NotAllowed`` for those who may not inspect, ``Invalid`` for one of another workflow.
    """
    workflow = workflow_of(viewer, run_id)
    one, other = (_find(viewer, run_id, workflow, text, name) for name, text in (("a", before), ("b", after)))
    if one.size + other.size > LARGEST:
        problem = f"Too large to compare ({one.size + other.size:,} bytes)"
        return Comparison(before=_without_content(one), after=_without_content(other), problem=problem)
    old, new = read_checkpoint(viewer, one.run, one.id), read_checkpoint(viewer, other.run, other.id)
    found = Comparison(before=old, after=new, problem=old.problem or new.problem, note=old.note or new.note)
    if found.problem:
        return found
    return replace(
        found,
        moved=_step_changes(one, other),
        asked=_request_changes(old, new),
        patch=tuple(make(old.state, new.state)),
        inputs=_inputs(one.run, other.run),
    )


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
        raise Invalid([{"loc": [name], "msg": text}])
    return info_of(row)


def _may_see(viewer: Viewer, run_id: str) -> bool:
    try:
        return bool(workflow_of(viewer, run_id))
    except NotFound:
        return False


def _without_content(info: CheckpointInfo) -> CheckpointView:
    return CheckpointView(info=info)


def _inputs(one: str, other: str) -> tuple[Json, Json] | None:
    if one == other:
        return None
    rows = models.Run.objects.filter(pk__in=[one, other]).only("id", "input", "workflow")
    given = {run.pk: masked_for(run.workflow, run.input) for run in rows}
    return None if same(given[one], given[other]) else (given[one], given[other])


def _step_changes(one: CheckpointInfo, other: CheckpointInfo) -> tuple[StepCountsDiff, ...]:
    before, after = counts_within(ranges_to(one.run, one.id)), counts_within(ranges_to(other.run, other.id))
    none = StepCounts()
    steps = dict.fromkeys([*before, *after])
    pairs = ((step, before.get(step, none), after.get(step, none)) for step in steps)
    return tuple(StepCountsDiff(step=step, before=old, after=new) for step, old, new in pairs if old != new)


def _request_changes(before: CheckpointView, after: CheckpointView) -> tuple[RequestChange, ...]:
    old: dict[Json, Request] = {request.key: request for request in before.requests}
    new: dict[Json, Request] = {request.key: request for request in after.requests}
    return tuple(
        RequestChange(key=str(key), before=old.get(key), after=new.get(key))
        for key in dict.fromkeys([*old, *new])
        if key not in old or key not in new or old[key].card != new[key].card
    )
