"""Why a run that is due is not taken: no running worker has its code, or its workflow has no free place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Literal, TypeAlias

from django.db.models import Count
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints.database.living_workers import served_versions
from checkpoints.models import Claim
from checkpoints.records import Phase
from checkpoints.rules import TIMED
from wfdash import catalog
from wfdash.queries.workers import with_workflow

Pending: TypeAlias = Literal["", "unserved", "version", "limit"]
""""unserved": no running worker serves the run's workflow; "version": those that do have another version of it, and it
is migrated or held soon; "limit": as many of its runs execute as may at once.
"""


def pending_of(runs: Iterable[Any]) -> dict[str, Pending]:
    """Return run id -> why it is not taken, of those of these annotated runs that are due and are not.

    Two queries if any is due, and one if a workflow of theirs has a limit.
    """
    now = timezone.now()
    due = [run for run in runs if run.for_workers and not run.claim_live and _is_due(run, now)]
    full, served = _full({run.workflow for run in due}), served_versions() if due else None
    found = {run.id: _why(run, full, served) for run in due}
    return {run: why for run, why in found.items() if why}


def _why(run: Any, full: Collection[str], served: Collection[tuple[str, str]] | None) -> Pending:
    if served is not None and all(workflow != run.workflow for workflow, _ in served):
        return "unserved"
    if run.workflow in full:
        return "limit"
    return "version" if served is not None and run.version and (run.workflow, run.version) not in served else ""


def _full(workflows: Iterable[str]) -> set[str]:
    """Return those of these workflows of which as many runs execute as may at once."""
    limits = {name: limit for name in workflows if (limit := catalog.limit_of(name)) is not None}
    if not limits:
        return set()
    live = with_workflow(Claim.objects.filter(expires__gt=Now()))
    counts = dict(live.values_list("workflow").annotate(Count("pk")))
    return {name for name, limit in limits.items() if counts.get(name, 0) >= limit}


def _is_due(run: Any, now: datetime) -> bool:
    woken = run.wake_at is not None and run.wake_at <= now
    return run.phase == Phase.READY.value or (woken and Phase(run.phase) in TIMED)
