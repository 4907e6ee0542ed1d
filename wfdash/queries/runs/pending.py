"""Why no worker takes a run although it is due: none that is running serves it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypeAlias

from django.utils import timezone

from checkpoints.records import Phase
from checkpoints.rules import TIMED
from wfdash.queries.workers import unserved

Pending: TypeAlias = Literal["", "unserved"]
""""unserved": no running worker serves the run's workflow."""


def pending_of(runs: Iterable[Any]) -> dict[str, Pending]:
    """Return run id -> why it is not taken, of those of these annotated runs that are due and are not (two queries, if
    any is due).
    """
    now = timezone.now()
    due = [run for run in runs if run.for_workers and not run.claim_live and _is_due(run, now)]
    lacking = unserved(run.workflow for run in due)
    return {run.id: "unserved" for run in due if run.workflow in lacking}


def _is_due(run: Any, now: datetime) -> bool:
    woken = run.wake_at is not None and run.wake_at <= now
    return run.phase == Phase.READY.value or (woken and Phase(run.phase) in TIMED)
