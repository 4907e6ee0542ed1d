"""Which workers live, and which workflows they claim runs of, by what they say themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import QuerySet

from checkpoints.database.clock import database_now
from checkpoints.models import WorkerBeat

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A worker without a heartbeat for so long counts as gone; heartbeats come every few seconds."""


def living(now: datetime) -> QuerySet[WorkerBeat]:
    """Return the rows of live workers. ``now``: the database's time."""
    return WorkerBeat.objects.filter(seen__gt=now - HEARTBEAT_TIMEOUT)


def served(*, but: str = "") -> list[Mapping[str, str] | None]:
    """Return workflow -> version of what each live worker claims, None where it does not say; without the worker
    ``but`` (two queries).
    """
    return list(living(database_now()).exclude(pk=but).values_list("serves", flat=True))


def served_workflows() -> frozenset[str] | None:
    """Return the workflows that some live worker claims; None: any, as one does not say which (two queries)."""
    found = served()
    known = [one for one in found if one is not None]
    return frozenset().union(*known) if len(known) == len(found) else None
