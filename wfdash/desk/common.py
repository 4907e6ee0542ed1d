"""What every verb needs: look-up through the viewer, the next event, the fence, the bells."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from checkpoints.models import Claim, Event, HumanRequest, Run
from checkpoints.records import Phase
from checkpoints.rules import TIMED
from wfdash import nudge
from wfdash.access import Viewer
from wfdash.errors import NotAllowed, NotFound, WrongState


def find_run(viewer: Viewer, run_id: str, *, right: str = "see") -> Run:
    """Return a run through its viewer: ``NotFound`` if they may not see it, ``NotAllowed`` if only the right lacks."""
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run")
    if not viewer.may(right, run.workflow):
        raise NotAllowed()
    return run


def lock_run(run: Run) -> Run:
    """Return the run as it is now, its row locked until the transaction ends."""
    return Run.objects.select_for_update().get(pk=run.pk)


def find_request(viewer: Viewer, request_id: str) -> HumanRequest:
    """Return a request, with its run, through its viewer. Who started the run may see what it asks."""
    found = HumanRequest.objects.select_related("run", "run__created_by")
    request = found.filter(viewer.scope("answer") | viewer.scope("see") | viewer.started(), pk=request_id).first()
    if request is None:
        raise NotFound("There is no such request")
    return request


def lock_request(request: HumanRequest) -> HumanRequest:
    """Return the request as it is now, its run's row locked first: the order every writer keeps to.

    Where transactions lock the whole database (SQLite), what was found inside one is what is.
    """
    if not connection.features.has_select_for_update:
        return request
    run = Run.objects.select_for_update(of=("self",)).select_related("created_by").get(pk=request.run_id)
    request = HumanRequest.objects.get(pk=request.pk)
    request.run = run
    return request


def append_event(run: Run, kind: str, data: dict[str, Any], *, step: str | None = None, wake: bool = False) -> int:
    """Give the run its next event inside the caller's transaction; the bell rings once that is committed.

    ``wake``: also make a run ready that waits for an answer or a time.
    """
    now = timezone.now()
    seq = _next_seq(run, now, wake)
    Event.objects.create(run_id=run.pk, seq=seq, kind=kind, step=step, data=data, at=now)
    run_id = run.pk
    transaction.on_commit(lambda: nudge.runs_moved.ring(run_id, seq))
    if kind.startswith("request.") and data.get("request"):
        ring_request(run.workflow, data["request"])
    return seq


def append_request_event(request: HumanRequest, kind: str, *, wake: bool = False, **facts: Any) -> int:
    """Append an event about a request to its run: which one, its subject, and these facts."""
    named = {"request": request.pk, "key": request.key, "subject": str(request.card.get("subject") or "")}
    return append_event(request.run, kind, named | facts, step=request.step, wake=wake)


def _next_seq(run: Run, now: datetime, wake: bool) -> int:
    row = Run.objects.filter(pk=run.pk)
    woken = {"phase": Case(When(phase__in=TIMED, then=Value(Phase.READY.value)), default=F("phase"))} if wake else {}
    row.update(seq=F("seq") + 1, updated=now, **woken)
    return row.values_list("seq", flat=True).get()


def ring_request(workflow: str, request_id: str, part: str = "request") -> None:
    """Ring for those who have this request open, once the caller's transaction is committed."""
    transaction.on_commit(lambda: nudge.requests_moved.ring(workflow, part, request_id))


def fence(run: Run) -> None:
    """Take the run from whoever drives it, within the caller's transaction: their next write fails."""
    Run.objects.filter(pk=run.pk).update(epoch=F("epoch") + 1, ending="")
    Claim.objects.filter(run=run).delete()


def move_run(run: Run, expected: Q, verb: str, viewer: Viewer, **changes: Any) -> None:
    """Change the run if it still is as expected, fencing its worker; ``WrongState`` names what it is instead."""
    changes |= {"updated": timezone.now(), "acted_by": viewer.name, "noted": False}
    if Run.objects.filter(expected, pk=run.pk).update(**changes) != 1:
        run.refresh_from_db()
        raise WrongState(f"A run that is {run.phase} cannot be told to {verb}")
    fence(run)
    run.refresh_from_db()


def hint(run_id: str) -> None:
    transaction.on_commit(lambda: nudge.runs_due.ring(run_id))


def tell_inbox(workflow: str) -> None:
    transaction.on_commit(lambda: nudge.inbox_moved.ring(workflow))
