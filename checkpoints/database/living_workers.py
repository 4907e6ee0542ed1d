"""Which workers live, and which workflows they claim runs of, by what they say themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db.models import QuerySet

from checkpoints.database.clock import database_now
from checkpoints.models import WorkerBeat

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""A worker without a heartbeat for so long counts as gone; heartbeats come every few seconds."""

MAX_READ_WORKERS = 1000
"""Workers that one looks at."""


OTHERS = f"""
    SELECT id, CASE WHEN seen > clock_timestamp() - {HEARTBEAT_TIMEOUT.total_seconds()} * interval '1 second'
                    THEN COALESCE(serves, 'null') END
    FROM {WorkerBeat._meta.db_table} WHERE id <> %s LIMIT {MAX_READ_WORKERS}
"""  # noqa: S608
"""PostgreSQL's statement for ``others``, where the ORM is not used: its parameter is the worker."""


def living(now: datetime) -> QuerySet[WorkerBeat]:
    """Return the rows of live workers. ``now``: the database's time."""
    return WorkerBeat.objects.filter(seen__gt=now - HEARTBEAT_TIMEOUT)


def others(worker: str) -> tuple[list[str], list[Mapping[str, str] | None]]:
    """Return the names of other workers, also of those that may have ended, and what each of them that lives claims
    (two queries).
    """
    since = database_now() - HEARTBEAT_TIMEOUT
    rows = list(WorkerBeat.objects.order_by().exclude(pk=worker).values_list("pk", "seen", "serves")[:MAX_READ_WORKERS])
    return [name for name, _, _ in rows], [serves for _, seen, serves in rows if seen > since]


def others_in(rows: Iterable[tuple[str, str | None]]) -> tuple[list[str], list[Mapping[str, str] | None]]:
    """Return what ``others`` does, from the rows of its statement."""
    found = list(rows)
    return [name for name, _ in found], [json.loads(serves) for _, serves in found if serves is not None]


def served() -> list[Mapping[str, str] | None]:
    """Return workflow -> version of what each live worker claims, None where it does not say (two queries)."""
    return list(living(database_now()).values_list("serves", flat=True))


def served_versions() -> frozenset[tuple[str, str]] | None:
    """Return each workflow and version that some live worker claims; None: any, as one does not say which (two
    queries).
    """
    found = served()
    known = [one for one in found if one is not None]
    return frozenset(pair for one in known for pair in one.items()) if len(known) == len(found) else None


def served_workflows() -> frozenset[str] | None:
    """Return the workflows that some live worker claims; None: any, as one does not say which (two queries)."""
    found = served_versions()
    return None if found is None else frozenset(workflow for workflow, _ in found)
