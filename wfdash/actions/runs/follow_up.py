"""Follow-ups: the next message to a completed run, as a new run that continues from its last checkpoint.

The runs that follow one another are a thread. It has one end: a second follow-up on the same run is refused, because
its author has not read the first one. A thread branches where someone takes a run back (restore, fork) and follows up
on that.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.runs import copy_row, info_of, read_row
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import Checkpoint, Run
from checkpoints.models.user_model import User
from checkpoints.records import Json, Phase, Reason
from checkpoints.sql.tables import run_row
from wfdash.access.viewer import Viewer, origin_of
from wfdash.actions import audit, pacing
from wfdash.actions.common import append_event, find_run, lock_run, notify_workers
from wfdash.actions.pacing import idempotent, made_before, previous_result
from wfdash.actions.runs import search_index
from wfdash.actions.runs.lifecycle import names_of_follow_up, remember_version
from wfdash.contract import Continues, InvalidInput
from wfdash.domain.errors import AlreadyFollowed, Invalid, WrongState
from wfdash.engines import catalog
from wfdash.queries import timemachine
from wfdash.values.schemas.validate import flaws_of

VERB = "follow-up"


@dataclass(frozen=True, kw_only=True)
class FollowUp:
    """A message for a completed run, as the run that follows will receive it."""

    entry: catalog.Entry
    head: Checkpoint
    message: Json


def follow_up(viewer: Viewer, run_id: str, message: Json, *, key: str | None = None) -> Run:
    """Start a run that follows a completed one with a message, and return it. The same ``key`` starts it once.

    People who may start runs of the workflow may follow up on its runs. ``Invalid`` with errors per field when
    the message does not match ``follow_up_schema``; ``WrongState`` if the run is not completed or its workflow takes no
    follow-ups; ``AlreadyFollowed`` if another run has followed from the same end; ``Incompatible`` if the workflow has
    changed so that it cannot continue from there, ``CodeElsewhere`` if it has and no worker with its code
    answers; ``Damaged``.
    """
    run = find_run(viewer, run_id, right="start")
    command = (VERB, [run_id, message])
    if known := previous_result(viewer, key, *command):
        return made_before(Run, known["run"])
    given = _checked(run, message)
    with write(), idempotent(viewer, key, *command) as call:
        if call.previous_result is not None:
            return made_before(Run, call.previous_result["run"])
        pacing.charge(viewer, VERB)
        # Pruning takes the same lock: what the new run shares cannot be deleted in between.
        earlier = lock_run(run)
        _refuse(earlier, given)
        later = _create_run(viewer, earlier, given)
        copy_row(
            given.head,
            later,
            n=1,
            reason=Reason.FOLLOW_UP,
            seq=1,
            version=later.version,
            facts=timemachine.with_message_due(info_of(given.head).facts),
        )
        search_index.index_run(later, given.message)
        append_event(later, EventKind.RUN_QUEUED.draft(by=viewer.name, run=earlier.pk))
        append_event(earlier, EventKind.RUN_FOLLOWED_UP.draft(by=viewer.name, run=later.pk))
        audit.record_run(viewer, VERB, later, right="start", origin=earlier.pk, n=given.head.n)
        notify_workers(later.pk)
        call.record(run=later.pk)
    return later


def _checked(run: Run, message: Json) -> FollowUp:
    """Check a message before the transaction, because that runs the author's code."""
    entry = timemachine.taking(run.workflow)
    if entry is None:
        raise WrongState("Runs of this workflow take no follow-up. Start a new run instead")
    if run.phase != Phase.COMPLETED:
        raise WrongState(f"Only a completed run can be followed up, and this one is {run.phase}")
    head = Checkpoint.objects.filter(run=run).order_by("-n").first()
    if head is None:
        raise WrongState("This run has no checkpoint to continue from. Start a new run instead")
    if flaws := flaws_of(message):
        raise Invalid(flaws)
    assert isinstance(entry.engine, Continues)  # noqa: S101, as taking() found
    try:
        checked = entry.engine.check_follow_up(entry.definition, read_row(head), message)
    except InvalidInput as error:
        raise Invalid(error.errors) from error
    return FollowUp(entry=entry, head=head, message=checked)


def _refuse(earlier: Run, given: FollowUp) -> None:
    """Raise ``WrongState`` if the run has moved on or was followed up since it was read; the caller has its lock."""
    if earlier.phase != Phase.COMPLETED or earlier.n != given.head.n:
        raise WrongState("The run has continued in the meantime. Wait until it has ended")
    other = timemachine.successors(earlier).select_related("created_by").order_by("created", "id").first()
    if other is not None:
        by = origin_of(other).starter
        raise AlreadyFollowed(
            f"{by or 'Someone'} has followed up on this run already. Read run {other.pk[-8:]} and continue there",
            run=other.pk,
            by=by,
            at=other.created.isoformat(),
        )


def _create_run(viewer: Viewer, earlier: Run, given: FollowUp) -> Run:
    now, described = timezone.now(), given.entry.description
    remember_version(described)
    thread = earlier.thread or earlier.pk
    if earlier.thread is None:
        Run.objects.filter(pk=earlier.pk).update(thread=thread)
    named = {name: getattr(described, name) for name in ("workflow", "version", "engine")}
    # Who wrote earlier turns has shaped what this one starts with: they count as its requesters, too.
    asked = {origin_of(earlier).starter, *(earlier.requesters or ()), *viewer.names} - {viewer.name, ""}
    return Run.objects.create(
        **run_row(ids.new_run_id(), **named, title=described.title[:300], n=1, family=earlier.family),
        **names_of_follow_up(earlier, given.entry, given.message),
        input=given.message,
        follows=earlier.pk,
        follows_n=given.head.n,
        thread=thread,
        created_by=viewer.user if isinstance(viewer.user, User) else None,
        requesters=sorted(asked) or None,
        created=now,
        updated=now,
    )
