"""Which workers live, and what they serve: for monitoring, and to say why a run that is due is not taken."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from checkpoints.database.living_workers import living, served_workflows
from checkpoints.models import Claim, Run


@dataclass(frozen=True, kw_only=True)
class WorkerRow:
    """A worker process, as it reports itself."""

    name: str
    started: datetime
    seen: datetime
    runs: int
    late: float


def workers(now: datetime) -> list[WorkerRow]:
    """Return the live workers, the most recent heartbeat first (one query). ``now``: the database's time."""
    return [
        WorkerRow(name=row.pk, started=row.started, seen=row.seen, runs=row.runs, late=row.late)
        for row in living(now).defer("serves").order_by("-seen")[:100]
    ]


def unserved(workflows: Iterable[str]) -> frozenset[str]:
    """Return those of these workflows that no live worker claims (two queries, if there are any workflows)."""
    asked = frozenset(workflows)
    known = served_workflows() if asked else None
    return asked - known if known is not None else frozenset()


def with_workflow(claims: QuerySet[Claim]) -> QuerySet[Any, Any]:
    """Return claims, in no order, each with the ``workflow`` of its run.

    Not a join: SQLite would begin at the runs, in the index that has them by workflow, and read it from end to end.
    """
    runs = Run.objects.filter(pk=OuterRef("run_id")).values("workflow")
    return claims.annotate(workflow=Subquery(runs)).order_by()
