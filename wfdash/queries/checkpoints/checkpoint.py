"""A checkpoint with its content."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints import models
from checkpoints.database.rows import info_of, read_row
from checkpoints.errors import Damaged, Incompatible
from checkpoints.records import CheckpointInfo, Json, Request
from wfdash.access.viewer import Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.history.events import workflow_of
from wfdash.schemas.secrets import masked
from wfdash.timemachine import restore_point


@dataclass(frozen=True, kw_only=True)
class CheckpointView:
    """A checkpoint, secrets hidden. ``problem`` says why its content cannot be read: then it is empty."""

    info: CheckpointInfo
    body: dict[str, Json]
    requests: tuple[Request, ...]
    parent_n: int | None
    parent_run: str | None
    children: tuple[CheckpointInfo, ...]
    problem: str = ""

    @property
    def number(self) -> str:
        """Return its number in the run."""
        return str(self.info.n)

    @property
    def state(self) -> Json:
        """Return the workflow's own state."""
        return self.body.get("state", {})

    @property
    def position(self) -> Json:
        """Return the engine's position."""
        return self.body.get("position", {})

    @property
    def rest(self) -> dict[str, Json]:
        """Return the rest of the body: the engine's other data."""
        return {name: value for name, value in self.body.items() if name not in {"state", "position"}}


def checkpoint(viewer: Viewer, run_id: str, checkpoint_id: str) -> CheckpointView:
    """Return one checkpoint with its content. ``NotFound``; ``NotAllowed`` for those who may not inspect values."""
    row = find_row(viewer, run_id, checkpoint_id)
    content, problem = _masked_content(row)
    parent = models.Checkpoint.objects.filter(pk=row.parent).values_list("n", "run_id").first() if row.parent else None
    children = models.Checkpoint.objects.filter(run_id=run_id, parent=row.id).defer("body").order_by("n")
    return CheckpointView(
        info=info_of(row),
        body=content[0],
        requests=content[1],
        parent_n=parent[0] if parent else None,
        parent_run=parent[1] if parent else None,
        children=tuple(info_of(child) for child in children),
        problem=problem,
    )


def find_row(viewer: Viewer, run_id: str, checkpoint_id: str, *, right: str = "inspect") -> models.Checkpoint:
    """Return the row through its viewer (two queries); another run's checkpoint is not found either.

    ``right``: what they need besides ``inspect``, for whatever is shown of it has values.
    """
    workflow = workflow_of(viewer, run_id)
    if not (viewer.may("inspect", workflow) and viewer.may(right, workflow)):
        raise NotAllowed("Your role cannot view values. Ask an operator")
    row = models.Checkpoint.objects.filter(run_id=run_id, pk=checkpoint_id).first()
    if row is None:
        raise NotFound("Checkpoint not found in this run. It may have been pruned")
    return row


def _masked_content(row: models.Checkpoint) -> tuple[tuple[dict[str, Json], tuple[Request, ...]], str]:
    try:
        record = read_row(row)
    except (Damaged, Incompatible) as error:
        return ({}, ()), str(error)
    return (masked(record.body, restore_point.secrets_of(record)), record.requests), ""
