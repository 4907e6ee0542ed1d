"""Runs that follow a completed one: which workflows take a follow-up, who follows whom, whose message is still due.

Read-only; used by actions, queries and the worker.
"""

from __future__ import annotations

from django.db.models import QuerySet

from checkpoints.models import Run
from checkpoints.records import CheckpointInfo, Json, Phase
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.contract import Continues

MESSAGE_DUE = "follow_up"
"""The fact of a checkpoint that ends one run and begins the next, until that has been given its message."""


def with_message_due(facts: dict[str, Json]) -> dict[str, Json]:
    """Return the facts of a finished run's checkpoint as those of the first one of the run that follows it."""
    return {**facts, MESSAGE_DUE: True}


def is_message_due(checkpoint: CheckpointInfo) -> bool:
    """Return whether a run continues from this checkpoint by its own message.

    Restoring, forking and editing keep facts, so a run that is taken back to there gets its message again.
    """
    return checkpoint.facts.get(MESSAGE_DUE) is True


def taking(workflow: str) -> catalog.Entry | None:
    """Return a loaded workflow whose completed runs take a follow-up; None for every other."""
    entry = catalog.find(workflow)
    if entry is None or entry.description.follow_up_schema is None or not isinstance(entry.engine, Continues):
        return None
    return entry


def successors(run: Run) -> QuerySet[Run]:
    """Return the runs that follow from the present end of a run, but for those that failed or were cancelled."""
    following = Run.objects.filter(thread=run.thread or run.pk, follows=run.pk, follows_n=run.n)
    return following.exclude(phase__in=[Phase.FAILED, Phase.CANCELLED])


def is_open(viewer: Viewer, run: Run) -> bool:
    """Return whether a person may follow up on a run now (one query, if nothing else forbids it)."""
    may = run.phase == Phase.COMPLETED and viewer.may("start", run.workflow)
    return may and taking(run.workflow) is not None and not successors(run).exists()
