"""Verbs on history: restore a chosen checkpoint in place, or fork a new run from it."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from checkpoints import ids, rules
from checkpoints.models import Answer, Checkpoint, HumanRequest, Run
from checkpoints.orm import write
from checkpoints.records import FORMAT, Phase, Reason, Request
from checkpoints.rows import read_row, rebound
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.common import append_event, fence, find_run, hint, tell_inbox
from wfdash.errors import NotFound
from wfdash.workflow.policy import Policy


def restore_run(viewer: Viewer, run_id: str, checkpoint_id: str) -> Checkpoint:
    """Make a chosen checkpoint the run's head again and let the run go on from there.

    The new head is a new checkpoint (n + 1, reason restore) whose parent is the chosen one, so history stays a tree
    and nothing is removed. The active worker is fenced at once. Requests that were pending at that point open again,
    the last answer as a suggestion; all others that are still open are superseded. ``Damaged`` or ``Incompatible``
    leave the run as it is.
    """
    with write():
        run = find_run(viewer, run_id, right="operate")
        chosen = find_checkpoint(run, checkpoint_id)
        fence(run)
        run.refresh_from_db()
        requests = read_row(chosen).requests
        head = _copy_checkpoint(chosen, run, n=run.n + 1, reason=Reason.RESTORE)
        _supersede_requests(run)
        for request in requests:
            _reopen_request(run, request, origin=run)
        _rewind(run, head, viewer)
        audit.record_run(viewer, "restore", run, checkpoint=chosen.id, n=chosen.n)
        tell_inbox(run.workflow)
        hint(run.id)
    return head


def fork_run(viewer: Viewer, run_id: str, checkpoint_id: str) -> Run:
    """Start a new run from a chosen checkpoint. The old run stays as it is, whatever it is doing."""
    with write():
        origin = find_run(viewer, run_id, right="operate")
        # Pruning takes the same lock: what the fork shares cannot vanish in between.
        Run.objects.select_for_update().get(pk=origin.pk)
        chosen = find_checkpoint(origin, checkpoint_id)
        requests = read_row(chosen).requests
        fork = _create_fork(viewer, origin, chosen)
        _copy_checkpoint(chosen, fork, n=1, reason=Reason.FORK)
        for request in requests:
            _reopen_request(fork, request, origin=origin)
        facts = {"by": viewer.name, "run": origin.id, "checkpoint": chosen.id, "n": chosen.n}
        append_event(fork, "run.forked", facts)
        audit.record_run(viewer, "fork", fork, origin=origin.id, checkpoint=chosen.id, n=chosen.n)
        tell_inbox(fork.workflow)
        hint(fork.id)
    return fork


def find_checkpoint(run: Run, checkpoint_id: str) -> Checkpoint:
    """Return a checkpoint of this run, or ``NotFound``: another run's is not found either."""
    chosen = Checkpoint.objects.filter(run=run, pk=checkpoint_id).first()
    if chosen is None:
        raise NotFound("There is no such checkpoint in this run")
    return chosen


def _copy_checkpoint(chosen: Checkpoint, run: Run, *, n: int, reason: Reason) -> Checkpoint:
    """Insert the chosen content again as a new checkpoint; big content is shared, not copied."""
    copied = {"id": ids.new_checkpoint_id(), "n": n, "parent": chosen.id, "reason": reason}
    return Checkpoint.objects.create(
        **copied,
        run=run,
        workflow=chosen.workflow,
        version=chosen.version,
        engine=chosen.engine,
        step=chosen.step,
        created=timezone.now(),
        format=FORMAT,
        size=chosen.size,
        seq=run.seq + 1,
        waiting=chosen.waiting,
        body=rebound(chosen, run=run.id, **copied),
    )


def _supersede_requests(run: Run) -> None:
    pending = HumanRequest.objects.filter(run=run, closed__isnull=True)
    pending.update(closed=timezone.now(), closed_as="superseded")


def _reopen_request(run: Run, request: Request, *, origin: Run) -> None:
    """Ask again what was pending at the checkpoint; whoever decides sees what was answered the last time."""
    earlier = HumanRequest.objects.filter(run=origin, key=request.key).order_by("-created", "-id").first()
    given = Answer.objects.filter(request__run=origin, request__key=request.key).order_by("-at").first()
    policy, now = Policy.model_validate(request.policy), timezone.now()
    # Asked anew, it has its whole time again: the old deadline would decide it at once.
    due = now + policy.due if policy.due else request.due
    HumanRequest.objects.create(
        id=ids.new_request_id(),
        run=run,
        key=request.key,
        workflow=run.workflow,
        step=request.step,
        kind=request.kind,
        card=request.card,
        answer_schema=request.answer_schema,
        by=list(request.by),
        not_by=list(request.not_by),
        due=due,
        policy=request.policy,
        alarm=policy.next_alarm(now, due, now),
        risk=rules.risk_of(request.card),
        created=now,
        replaces=earlier.id if earlier and run == origin else None,
        suggestion=_suggestion(given),
    )


def _suggestion(given: Answer | None) -> dict[str, Any] | None:
    if given is None:
        return None
    by = given.by.get_username() if given.by else None
    return {"value": given.value, "verdict": given.verdict, "by": by, "at": given.at.isoformat()}


def _rewind(run: Run, head: Checkpoint, viewer: Viewer) -> None:
    Run.objects.filter(pk=run.pk).update(
        n=head.n,
        phase=Phase.READY,
        version=head.version,
        output=None,
        error=None,
        finished=None,
        wake_at=None,
        retry=None,
        attempts=0,
        acted_by=viewer.name,
    )
    append_event(run, "run.restored", {"by": viewer.name, "checkpoint": head.parent, "n": head.n})


def _create_fork(viewer: Viewer, origin: Run, chosen: Checkpoint) -> Run:
    now = timezone.now()
    return Run.objects.create(
        id=ids.new_run_id(),
        family=origin.family,
        forked_from=chosen.id,
        workflow=origin.workflow,
        version=chosen.version,
        engine=origin.engine,
        title=origin.title,
        input=origin.input,
        n=1,
        # The requester stays who they were, so that a fork is no way around "not by the requester".
        created_by=origin.created_by,
        created=now,
        updated=now,
    )
