"""What is in progress in a run, before it is fenced."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.database.runs import read_row
from checkpoints.errors import CheckpointsError
from checkpoints.models import Checkpoint, Claim, Run
from wfdash import catalog
from wfdash.contract import InFlight, TellsInFlight
from wfdash.engines.consultation import AuthorCodeFailed


@dataclass(frozen=True, kw_only=True)
class AtCheckpoint:
    """What a worker said of a run before a transaction, in which none is asked: true of that checkpoint alone."""

    checkpoint: str
    found: InFlight


def asked_before(run: Run) -> AtCheckpoint | None:
    """Ask a worker what is in progress, before the transaction that fences it; None where this process has the code."""
    entry = catalog.find(run.workflow)
    head = _head_of(run) if entry is not None and entry.published else None
    return AtCheckpoint(checkpoint=head.pk, found=_found_at(run, head)) if head is not None else None


def of_run(run: Run, before: AtCheckpoint | None = None) -> InFlight:
    """Return the steps that a worker is running now, and calls whose outcome is unknown. ``before``: what was asked.

    Empty where the workflow is not loaded, its engine cannot tell, or the checkpoint cannot be read.
    """
    head = _head_of(run)
    if head is None:
        return InFlight()
    found = before.found if before is not None and before.checkpoint == head.pk else _found_at(run, head)
    return found if is_driven(run) else found.model_copy(update={"steps": ()})


def _head_of(run: Run) -> Checkpoint | None:
    return Checkpoint.objects.filter(run=run, n=F("run__n")).first()


def _found_at(run: Run, head: Checkpoint) -> InFlight:
    entry = catalog.find(run.workflow)
    if entry is None or not isinstance(entry.engine, TellsInFlight):
        return InFlight()
    try:
        return entry.engine.in_flight(entry.definition, read_row(head))
    except (CheckpointsError, AuthorCodeFailed):
        # To name what is interrupted must not keep a run from being ended: the worker's log has the error.
        return InFlight()


def is_driven(run: Run) -> bool:
    """Return whether a worker has the run."""
    return Claim.objects.filter(run=run, epoch__gte=F("run__epoch")).exists()


def driver_of(run_id: str) -> str:
    """Return the worker that has the run now, empty if none has."""
    driven = Claim.objects.filter(run=run_id, epoch__gte=F("run__epoch"), expires__gt=Now())
    return driven.values_list("worker", flat=True).first() or ""
