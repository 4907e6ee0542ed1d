"""Notifies operators and starters of runs that failed or are held. Many alike within an hour are one notification."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.utils import timezone

from checkpoints.errors import CheckpointsError
from checkpoints.models import Run
from checkpoints.models.user_model import User
from wfdash import catalog
from wfdash.access.directory import people_who
from wfdash.access.viewer import viewer_for
from wfdash.notifications.write import notify_workflow

NEWS = timedelta(hours=1)
"""What failed longer ago is no news: a run that is indexed late."""


def announce_failures(runs: Iterable[Run]) -> None:
    """Notify those concerned of these failed runs, inside the caller's transaction.

    Once an hour by workflow and class of error: an outage that fails a thousand runs is one message to each person.
    Only the class is named: a message may contain values.
    """
    since = timezone.now() - NEWS
    for run in runs:
        if run.finished is not None and run.finished >= since:
            kind = error_class(run)
            _notify(run, "failed", text=kind, alike=f"{run.workflow}:{kind}")


def announce_held(run: Run) -> None:
    """Notify those concerned that a run is held, inside the caller's transaction; once an hour by version."""
    _notify(run, "held", text="Its workflow has changed", alike=f"{run.workflow}:{run.version}")


def _notify(run: Run, kind: str, *, text: str, alike: str) -> None:
    hour = f"{timezone.now():%Y-%m-%dT%H}"
    facts = {"run": run.pk, "subject": title_for_everyone(run), "text": text}
    notify_workflow(kind, run.workflow, _concerned(run), facts=facts, once=f"{kind}:{hour}:{alike}"[:120])


def _concerned(run: Run) -> list[User]:
    """Return the operators of the run's workflow, and who started it if they may see it."""
    found = [viewer.user for viewer in people_who("operate", run.workflow)]
    starter = run.created_by
    if starter is not None and starter not in found and viewer_for(starter).may("see", run.workflow):
        found.append(starter)
    return found


def title_for_everyone(run: Run) -> str:
    """Return what everyone who sees the run may call it."""
    try:
        own = run.own_title
    except CheckpointsError:
        own = None
    return own or run.title or catalog.titles().get(run.workflow, run.workflow)


def error_class(run: Run) -> str:
    """Return the class of the run's error, empty if there is none: a message may contain values."""
    try:
        kind = str((run.error or {}).get("type") or "")
    except CheckpointsError:
        return ""
    return kind.rpartition(".")[2][:100]
