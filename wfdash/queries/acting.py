"""What is read before somebody acts on a run: its head, its input, what is open in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import F

from checkpoints.models import Checkpoint, Run
from checkpoints.records import Json
from wfdash import underway
from wfdash.access import Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.inbox import RequestRow, requests_of
from wfdash.queries.secrets import secrets_of


@dataclass(frozen=True, kw_only=True)
class Open:
    """What is open in a run that somebody is about to end."""

    steps: tuple[str, ...]
    """Steps that a worker is running."""
    calls: tuple[str, ...]
    """``once`` calls of which nobody knows whether they happened."""
    asks: tuple[RequestRow, ...]
    """Requests that people could still answer."""
    driven: bool


def open_in(viewer: Viewer, run_id: str) -> Open:
    """Return what is open in a run, for operators; ``NotFound``, ``NotAllowed``."""
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run, or it is not yours to see")
    if not viewer.may("operate", run.workflow):
        raise NotAllowed()
    found = underway.of_run(run)
    asks = tuple(row for row in requests_of(viewer, run_id) if not row.answered and not row.closed_as)
    return Open(steps=found.steps, calls=found.calls, asks=asks, driven=underway.is_driven(run))


def head_of(run_id: str) -> str:
    """Return the id of the checkpoint a run goes on from, empty if it has none (one query)."""
    return Checkpoint.objects.filter(run_id=run_id, n=F("run__n")).values_list("id", flat=True).first() or ""


def input_of(viewer: Viewer, run_id: str) -> tuple[str, Json]:
    """Return a run's workflow and its input, to start another one like it (one query).

    What the input's schema calls a secret (format ``password``, or ``writeOnly``) is left out. ``NotFound`` for
    those who may not inspect it.
    """
    run = Run.objects.filter(viewer.scope("inspect"), pk=run_id).only("workflow", "input").first()
    if run is None:
        raise NotFound("There is no such run, or its input is not yours to see")
    return run.workflow, without_secrets(run.workflow, run.input)


def without_secrets(workflow: str, value: Json) -> Json:
    """Return an input without what the workflow's schema calls a secret, as far as the workflow is loaded."""
    return _without(value, secrets_of(workflow))


def _without(value: Json, names: Collection[str]) -> Json:
    if isinstance(value, dict):
        return {name: _without(part, names) for name, part in value.items() if name not in names}
    return [_without(part, names) for part in value] if isinstance(value, list) else value
