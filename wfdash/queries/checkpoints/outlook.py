"""The engine's look-ahead for a checkpoint."""

from __future__ import annotations

from django.utils import timezone

from checkpoints import records
from checkpoints.errors import Incompatible
from wfdash import catalog
from wfdash.contract import LookAhead, LooksAhead

NO_OUTLOOK = "The engine cannot predict the next steps; this is based on the events"


def outlook_of(record: records.Checkpoint) -> LookAhead:
    """Return what a checkpoint does next, as its engine says; ``Incompatible`` with the reason if it cannot."""
    entry = catalog.find(record.workflow)
    if entry is None:
        raise Incompatible(f"Workflow {record.workflow!r} is not loaded")
    if not isinstance(entry.engine, LooksAhead):
        raise Incompatible(NO_OUTLOOK)
    return entry.engine.look_ahead(entry.definition, record, timezone.now())
