"""A run's current values: input, state, conversation, output. For people who may inspect them."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints import models
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import CheckpointsError
from checkpoints.records import CheckpointInfo, Json
from wfdash.access.viewer import Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.secrets import masked_for
from wfdash.timemachine.shown import NotShown, shown_json, shown_of

PARTS = ("state", "input", "output", "inputs", "transcript")
"""``inputs``: of the steps in progress; ``transcript``: the conversation with a model."""


@dataclass(frozen=True, kw_only=True)
class RunValues:
    """One part of a run's values. ``info``: the checkpoint it is from; ``problem`` says why there are none."""

    part: str
    value: Json = None
    info: CheckpointInfo | None = None
    problem: str = ""


def read_run_values(viewer: Viewer, run_id: str, part: str = "state") -> RunValues:
    """Return a part of a run's current values (two queries, more for big content). ``NotFound``, ``NotAllowed``."""
    run = models.Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("Run not found, or you do not have access")
    if not viewer.may("inspect", run.workflow):
        raise NotAllowed("Your role cannot view values. Ask an operator")
    if part == "input":
        return RunValues(part=part, value=masked_for(run.workflow, run.input))
    if part == "output":
        return RunValues(
            part=part,
            value=masked_for(run.workflow, run.output),
            problem="" if run.finished else "No output yet.",
        )
    row = models.Checkpoint.objects.filter(run_id=run_id, n=run.n).first()
    if row is None:
        return RunValues(part=part, problem="No checkpoints yet.")
    row.run = run
    try:
        value = shown_json(shown_of(read_row(row)))[part]
    except CheckpointsError as error:
        return RunValues(part=part, info=info_of(row), problem=f"This checkpoint cannot be read: {error}")
    except NotShown as error:
        return RunValues(part=part, info=info_of(row), problem=str(error))
    return RunValues(part=part, value=value, info=info_of(row))
