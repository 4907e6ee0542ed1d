"""The conversation with a model at a run's newest checkpoint."""

from __future__ import annotations

from functools import lru_cache

from checkpoints.database.runs import read_row
from checkpoints.errors import CheckpointsError
from checkpoints.models import Checkpoint
from wfdash import catalog
from wfdash.contract import Message
from wfdash.timemachine.shown import NotShown, shown_of

LARGEST = 16_000_000
"""Bytes of a checkpoint that is read each time its run's page is renewed."""


def read_conversation(run_id: str, n: int) -> tuple[Message, ...]:
    """Return what was said by checkpoint ``n`` of a run, secrets hidden (one query where it was not read before).

    The run must have been found through its viewer before, who may inspect its values.
    """
    return _said_at(run_id, n, catalog.latest.number) if n else ()


@lru_cache(maxsize=64)
def _said_at(run_id: str, n: int, reloads: int) -> tuple[Message, ...]:
    """A checkpoint never changes, and what is secret in it only where workflows are read again: it is read once."""
    row = Checkpoint.objects.filter(run_id=run_id, n=n, size__lte=LARGEST).select_related("run").first()
    try:
        return shown_of(read_row(row)).transcript if row is not None else ()
    except (CheckpointsError, NotShown):
        return ()
