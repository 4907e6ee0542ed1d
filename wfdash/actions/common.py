"""What every action needs: look-up through the viewer, the next event, the fence, notifying pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet
from django.db.models.expressions import BaseExpression
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac

from checkpoints.database.alias import connection, on_commit
from checkpoints.database.compiled import Placeholder, compiled_rows, insert
from checkpoints.database.runs import count_event, count_event_as_found
from checkpoints.events import EventKind, check_event
from checkpoints.models import Checkpoint, Claim, Event, HumanRequest, Run
from checkpoints.records import EventDraft
from checkpoints.sql.tables import EVENT, event_row
from wfdash import pubsub
from wfdash.access.viewer import Marks, Viewer
from wfdash.domain.errors import NotAllowed, NotFound, WrongState
from wfdash.pubsub.hints import current_hints

ID = Placeholder("id", HumanRequest._meta.pk)


class CountedEvent(NamedTuple):
    """A run's next event that ``lock_as_found`` has counted already."""

    number: int
    wake: bool


def drawn(salt: str, what: str) -> float:
    """Return a number from 0 to below 1 that only this server can tell, always the same for the same."""
    digest = salted_hmac(salt, what, algorithm="sha256").digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def find_run(viewer: Viewer, run_id: str, *, right: str = "see") -> Run:
    """Return a run through its viewer. ``NotFound`` if they may not see it, ``NotAllowed`` if only the right is
    missing.
    """
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("Run not found")
    if not viewer.may(right, run.workflow):
        raise NotAllowed()
    return run


def lock_run(run: Run) -> Run:
    """Return the run as stored now, its row locked until the transaction ends. ``NotFound`` if it was deleted."""
    found = Run.objects.select_for_update(of=("self",)).select_related("created_by").filter(pk=run.pk).first()
    if found is None:
        raise NotFound("Run not found")
    return found


def lock_rows(rows: QuerySet[Run]) -> None:
    """Lock these runs until the transaction ends, in the order of their ids, where the database locks rows.

    What a transaction writes of a run, or makes refer to a row of it, comes after this: the lock order of every writer.
    """
    if connection().features.has_select_for_update:
        list(rows.order_by("pk").select_for_update(of=("self",)).values_list("pk"))


def find_checkpoint(run: Run, checkpoint_id: str) -> Checkpoint:
    """Return a checkpoint of this run. ``NotFound``, also for a checkpoint of another run."""
    chosen = Checkpoint.objects.filter(run=run, pk=checkpoint_id).first()
    if chosen is None:
        raise NotFound("Checkpoint not found in this run")
    return chosen


def no_marks(viewer: Viewer) -> Mapping[str, BaseExpression]:
    """Return nothing: the marks of a look-up that reads the request and its run only."""
    return {}


def find_request(viewer: Viewer, request_id: str, marks: Marks = no_marks) -> HumanRequest:
    """Return a request, with its run, through its viewer. The person who started the run may see its requests.

    ``marks`` are read with it.
    """
    request = requests_for(viewer, marks).first(id=request_id)
    if request is None:
        raise NotFound("Request not found")
    refuse_beyond(viewer, request)
    return request


def refuse_beyond(viewer: Viewer, request: HumanRequest) -> None:
    """Raise ``NotAllowed`` for a token whose scope has no requests of this workflow."""
    if not (viewer.reaches("answer", request.workflow) or viewer.reaches("operate", request.workflow)):
        raise NotAllowed("This token may not answer requests of this workflow")


@compiled_rows
def requests_for(viewer: Viewer, marks: Marks) -> QuerySet[HumanRequest]:
    """Return the query of the request with an ``id``, if this viewer may see it."""
    scope = viewer.scope("answer") | viewer.scope("see") | viewer.started()
    found = HumanRequest.objects.select_related("run", "run__created_by").annotate(**marks(viewer))
    return found.filter(scope, pk=ID).order_by()


REQUEST = compiled_rows(lambda: HumanRequest.objects.select_related("run", "run__created_by").filter(pk=ID))
"""A request with its run, for no viewer."""
ALONE = compiled_rows(lambda: HumanRequest.objects.filter(pk=ID))


def lock_request(request: HumanRequest, *, outside: bool = False) -> HumanRequest:
    """Return the request as stored now, its run's row locked first: the lock order of every writer. ``NotFound``.

    Where a transaction locks the whole database (SQLite), a row read inside it is current already. ``outside``: it was
    read before the transaction.
    """
    if not (outside or connection().features.has_select_for_update):
        return request
    run, now = lock_run(request.run), ALONE().first(id=request.pk)
    if now is None:
        raise NotFound("Request not found")  # It was removed with its run since.
    now.run = run
    return now


def lock_as_found(run: Run, *, wake: bool) -> CountedEvent | None:
    """Lock a run and count its next event in the caller's transaction, if nothing has happened to it since this
    instance was read (one statement). None, and nothing is locked or changed, if something has.

    What happens to a run appends an event: so what was read with it is still true. The caller appends that event
    next, with the same ``wake``.
    """
    number = count_event_as_found(run, timezone.now(), wake=wake)
    return None if number is None else CountedEvent(number, wake)


def append_event(run: Run, event: EventDraft, *, wake: bool = False, counted: CountedEvent | None = None) -> int:
    """Append the run's next event in the caller's transaction and return its number; topics are published on commit.

    ``wake``: also make a run due that waits for an answer or a time. ``counted``: what the lock has counted of it.
    """
    kind, now = check_event(event), timezone.now()
    if counted and counted.wake != wake:
        raise RuntimeError("The run was locked for another event")  # its number would be missing
    seq = counted.number if counted else count_event(run.pk, now, wake=wake)
    row = event_row(run.pk, seq, event.kind, event.step, event.data)
    insert(Event(**dict(zip(EVENT, row, strict=True)), at=now))
    run_id = run.pk
    on_commit(lambda: pubsub.runs_changed.publish(run_id, seq))
    if kind.noun == "request" and event.data.get("request"):
        notify_request(run.workflow, event.data["request"])
    return seq


def append_request_event(
    request: HumanRequest, kind: EventKind, *, wake: bool = False, counted: CountedEvent | None = None, **facts: Any
) -> int:
    """Append an event about a request to its run, with its id, its subject and these facts. Returns the event's
    number.
    """
    named = {"request": request.pk, "key": request.key, "subject": str(request.card.get("subject") or "")}
    return append_event(request.run, kind.draft(request.step, **named, **facts), wake=wake, counted=counted)


def notify_request(workflow: str, request_id: str, part: str = "request") -> None:
    """Publish to those who have this request open, once the caller's transaction is committed."""
    on_commit(lambda: pubsub.requests_changed.publish(workflow, part, request_id))


def fence(run: Run) -> None:
    """Fence the run's worker in the caller's transaction: its next write fails.

    A live claim stays, with an earlier epoch: no one takes the run until its worker has stopped what still runs.
    """
    Run.objects.filter(pk=run.pk).update(epoch=F("epoch") + 1, ending="")
    Claim.objects.filter(run=run, expires__lte=Now()).delete()


def move_run(run: Run, expected: Q, verb: str, viewer: Viewer, **changes: Any) -> None:
    """Change the run if it still is as expected, and fence its worker. ``WrongState`` names its actual status.

    ``changes`` by which it becomes ready are those of ``made_ready``.
    """
    changes |= {"updated": timezone.now(), "acted_by": viewer.name, "noted": False}
    if Run.objects.filter(expected, pk=run.pk).update(**changes) != 1:
        run.refresh_from_db()
        raise WrongState(f"Cannot {verb} a run that is {run.phase}")
    fence(run)
    run.refresh_from_db()


def notify_workers(run_id: str) -> None:
    """Let a worker look at the run once the caller's transaction is committed."""
    current_hints().send(run_id)


def notify_inbox(workflow: str) -> None:
    on_commit(lambda: pubsub.inbox_changed.publish(workflow))
