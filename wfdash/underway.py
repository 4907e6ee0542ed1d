"""What a run is in the middle of, before somebody fences it."""

from __future__ import annotations

from django.db.models import F

from checkpoints.errors import CheckpointsError
from checkpoints.models import Checkpoint, Claim, Run
from checkpoints.rows import read_row
from wfdash import catalog
from wfdash.contract import TellsUnderWay, UnderWay


def of_run(run: Run) -> UnderWay:
    """Return the steps that a worker is running now, and calls of which nobody knows whether they happened.

    Nothing where the workflow is not loaded, its engine cannot tell, or the checkpoint cannot be read.
    """
    entry = catalog.find(run.workflow)
    head = Checkpoint.objects.filter(run=run, n=F("run__n")).first()
    if head is None or entry is None or not isinstance(entry.engine, TellsUnderWay):
        return UnderWay()
    try:
        found = entry.engine.under_way(entry.definition, read_row(head))
    except CheckpointsError:
        return UnderWay()
    return found if is_driven(run) else found.model_copy(update={"steps": ()})


def is_driven(run: Run) -> bool:
    """Say whether a worker has the run."""
    return Claim.objects.filter(run=run).exists()
