"""What is in progress in a run, before it is fenced."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.database.rows import read_row
from checkpoints.errors import CheckpointsError
from checkpoints.models import Checkpoint, Claim, Run
from wfdash import catalog
from wfdash.contract import InFlight, TellsInFlight


def of_run(run: Run) -> InFlight:
    """Return the steps that a worker is running now, and calls whose outcome is unknown.

    Empty where the workflow is not loaded, its engine cannot tell, or the checkpoint cannot be read.
    """
    entry = catalog.find(run.workflow)
    head = Checkpoint.objects.filter(run=run, n=F("run__n")).first()
    if head is None or entry is None or not isinstance(entry.engine, TellsInFlight):
        return InFlight()
    try:
        found = entry.engine.in_flight(entry.definition, read_row(head))
    except CheckpointsError:
        return InFlight()
    return found if is_driven(run) else found.model_copy(update={"steps": ()})


def is_driven(run: Run) -> bool:
    """Return whether a worker has the run."""
    return Claim.objects.filter(run=run, epoch__gte=F("run__epoch")).exists()


def driver_of(run_id: str) -> str:
    """Return the worker that has the run now, empty if none has."""
    driven = Claim.objects.filter(run=run_id, epoch__gte=F("run__epoch"), expires__gt=Now())
    return driven.values_list("worker", flat=True).first() or ""
