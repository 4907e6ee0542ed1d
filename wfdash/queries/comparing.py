"""Two checkpoints side by side: state, where the run stood, what people were asked. Of one workflow, of any runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from checkpoints import models
from checkpoints.records import CheckpointInfo, Json, Request
from checkpoints.rows import info_of
from wfdash.access import Viewer
from wfdash.errors import Invalid, NotFound
from wfdash.patch import Operation, make, same
from wfdash.queries.board import StepCounts, fold
from wfdash.queries.history import workflow_of
from wfdash.queries.lineage import spans_to
from wfdash.queries.secrets import masked_for
from wfdash.queries.states import CheckpointView, checkpoint

LARGEST = 16_000_000
"""Bytes of both together that are still compared."""
ADDRESS = re.compile(r"checkpoints/([0-9A-Za-z-]+)")


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A step that stood otherwise. ``before`` and ``after``: how many activations were in which state."""

    step: str
    before: StepCounts
    after: StepCounts


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question that is pending in one of the two, or in both with another card."""

    key: str
    before: Request | None
    after: Request | None

    @property
    def request(self) -> Request:
        """The question as it was asked last."""
        found = self.after or self.before
        if found is None:
            raise AssertionError("a question is pending somewhere")
        return found


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What differs between ``before`` and ``after``. ``problem`` says why nothing is compared."""

    before: CheckpointView
    after: CheckpointView
    moved: tuple[Moved, ...] = ()
    asked: tuple[Asked, ...] = ()
    patch: tuple[Operation, ...] = ()
    """From the state of ``before`` to that of ``after``."""
    inputs: tuple[Json, Json] | None = None
    """What the two runs began with, where it is not the same."""
    problem: str = ""

    @property
    def body_patch(self) -> tuple[Operation, ...]:
        """From the whole body of ``before`` to that of ``after``: state, position and what else the engine keeps."""
        return () if self.problem else tuple(make(self.before.body, self.after.body))

    @property
    def address(self) -> str:
        """The query of its raw patch, up to which one."""
        return f"?a={self.before.info.id}&b={self.after.info.id}&raw="

    @property
    def ends(self) -> tuple[tuple[str, CheckpointView], ...]:
        """Both, each with what it is called."""
        return (("From", self.before), ("To", self.after))


def compare(viewer: Viewer, run_id: str, before: str, after: str) -> Comparison:
    """Return what differs; ``before`` and ``after`` are ids, numbers of this run, or addresses of checkpoints.

    ``NotFound``, ``NotAllowed`` for those who may not inspect, ``Invalid`` for one of another workflow.
    """
    workflow = workflow_of(viewer, run_id)
    one, other = (_find(viewer, run_id, workflow, text, name) for name, text in (("a", before), ("b", after)))
    if one.size + other.size > LARGEST:
        problem = f"Together they hold {one.size + other.size:,} bytes: too much to compare here"
        return Comparison(before=_bare(one), after=_bare(other), problem=problem)
    old, new = checkpoint(viewer, one.run, one.id), checkpoint(viewer, other.run, other.id)
    found = Comparison(before=old, after=new, problem=old.problem or new.problem)
    if found.problem:
        return found
    return replace(
        found,
        moved=_moved(one, other),
        asked=_asked(old, new),
        patch=tuple(make(old.state, new.state)),
        inputs=_inputs(one.run, other.run),
    )


def _find(viewer: Viewer, run_id: str, workflow: str, text: str, name: str) -> CheckpointInfo:
    """Find a checkpoint by what a person gave for it."""
    text = text.strip()
    rows = models.Checkpoint.objects.defer("body")
    address = ADDRESS.search(text)
    if text.isascii() and text.isdigit() and len(text) < 19:
        row = rows.filter(run_id=run_id, n=int(text)).first()
    else:
        row = rows.filter(pk=address.group(1) if address else text[:36]).first()
    if row is None or (row.run_id != run_id and not _may_see(viewer, row.run_id)):
        raise NotFound("There is no such checkpoint: give its number in this run, its id, or its address")
    if row.workflow != workflow:
        text = f"That checkpoint belongs to workflow {row.workflow}: only those of one workflow can be compared"
        raise Invalid([{"loc": [name], "msg": text}])
    return info_of(row)


def _may_see(viewer: Viewer, run_id: str) -> bool:
    try:
        return bool(workflow_of(viewer, run_id))
    except NotFound:
        return False


def _bare(info: CheckpointInfo) -> CheckpointView:
    return CheckpointView(info=info, body={}, requests=(), parent_n=None, parent_run=None, children=())


def _inputs(one: str, other: str) -> tuple[Json, Json] | None:
    if one == other:
        return None
    rows = models.Run.objects.filter(pk__in=[one, other]).only("id", "input", "workflow")
    given = {run.pk: masked_for(run.workflow, run.input) for run in rows}
    return None if same(given[one], given[other]) else (given[one], given[other])


def _moved(one: CheckpointInfo, other: CheckpointInfo) -> tuple[Moved, ...]:
    before, after = fold(spans_to(one.run, one.id)), fold(spans_to(other.run, other.id))
    none = StepCounts()
    steps = dict.fromkeys([*before, *after])
    pairs = ((step, before.get(step, none), after.get(step, none)) for step in steps)
    return tuple(Moved(step=step, before=old, after=new) for step, old, new in pairs if old != new)


def _asked(before: CheckpointView, after: CheckpointView) -> tuple[Asked, ...]:
    old: dict[Json, Request] = {request.key: request for request in before.requests}
    new: dict[Json, Request] = {request.key: request for request in after.requests}
    return tuple(
        Asked(key=str(key), before=old.get(key), after=new.get(key))
        for key in dict.fromkeys([*old, *new])
        if key not in old or key not in new or old[key].card != new[key].card
    )
