"""A run's values as they are now: input, state and position, output. For those who may inspect them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from checkpoints import models
from checkpoints.errors import CheckpointsError
from checkpoints.records import CheckpointInfo, Json
from checkpoints.rows import info_of, read_row
from wfdash import catalog
from wfdash.access import Viewer
from wfdash.errors import NotAllowed, NotFound

PARTS = ("state", "input", "output", "position")
HIDDEN = "•••"
"""Stands for what the input's schema calls a secret: ``writeOnly``, or of format ``password``."""


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
        return Values(part=part, value=masked_input(run.workflow, run.input))
    if part == "output":
        return Values(part=part, value=run.output, problem="" if run.finished else "There is no output yet.")
    row = models.Checkpoint.objects.filter(run_id=run_id, n=run.n).first()
    if row is None:
        return Values(part=part, problem="There is no checkpoint yet: the first is written when the run begins.")
    row.run = run
    try:
        body = read_row(row).body
    except CheckpointsError as error:
        return Values(part=part, info=info_of(row), problem=f"This checkpoint cannot be read: {error}")
    return Values(part=part, value=body.get(part, {}), info=info_of(row))


def masked_input(workflow: str, message: Json) -> Json:
    """Return a run's input with what its schema calls a secret hidden."""
    entry = catalog.find(workflow)
    names = set(_secrets(entry.description.input_schema)) if entry else set()
    return _masked(message, names) if names else message


def _secrets(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _secrets(part)
    if isinstance(schema, dict):
        fields = schema.get("properties")
        yield from (name for name, field in (fields if isinstance(fields, dict) else {}).items() if _secret(field))
        for part in schema.values():
            yield from _secrets(part)


def _secret(field: Any) -> bool:
    if not isinstance(field, dict):
        return False
    either = field.get("anyOf")
    told = field.get("format") == "password" or field.get("writeOnly") is True
    return told or any(_secret(one) for one in (either if isinstance(either, list) else ()))


def _masked(value: Json, names: set[str]) -> Json:
    if isinstance(value, dict):
        return {name: HIDDEN if name in names else _masked(part, names) for name, part in value.items()}
    return [_masked(part, names) for part in value] if isinstance(value, list) else value
