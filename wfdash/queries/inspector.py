"""A run's values as they are now: input, state and position, output. For those who may inspect them."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints import models
from checkpoints.errors import CheckpointsError
from checkpoints.records import CheckpointInfo, Json
from checkpoints.rows import info_of, read_row
from wfdash import rewind
from wfdash.access import Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.hidden import masked
from wfdash.queries.secrets import masked_for

PARTS = ("state", "input", "output", "position")


@dataclass(frozen=True, kw_only=True)
class Values:
    """One part of a run's values. ``info``: the checkpoint it is from; ``problem`` says why there is none to see."""

    part: str
    value: Json = None
    info: CheckpointInfo | None = None
    problem: str = ""


def values(viewer: Viewer, run_id: str, part: str = "state") -> Values:
    """Return a part of what a run holds now (two queries, more for big content). ``NotFound``, ``NotAllowed``."""
    run = models.Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run, or it is not yours to see")
    if not viewer.may("inspect", run.workflow):
        raise NotAllowed("Your role shows what happened in a run, not its values: ask an operator")
    if part == "input":
        return Values(part=part, value=masked_for(run.workflow, run.input))
    if part == "output":
        return Values(
            part=part,
            value=masked_for(run.workflow, run.output),
            problem="" if run.finished else "There is no output yet.",
        )
    row = models.Checkpoint.objects.filter(run_id=run_id, n=run.n).first()
    if row is None:
        return Values(part=part, problem="There is no checkpoint yet: the first is written when the run begins.")
    row.run = run
    try:
        record = read_row(row)
        body = masked(record.body, rewind.secrets_of(record))
    except CheckpointsError as error:
        return Values(part=part, info=info_of(row), problem=f"This checkpoint cannot be read: {error}")
    return Values(part=part, value=body.get(part, {}), info=info_of(row))
