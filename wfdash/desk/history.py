"""Verbs on history: restore a chosen checkpoint in place, fork a new run from it, either with edits; label it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from checkpoints import ids, rules
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.orm import write
from checkpoints.records import FORMAT, Phase, Reason, Request
from checkpoints.rows import insert_row, read_row, rebound
from wfdash import rewind
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.common import append_event, fence, find_run, hint, lock_run, tell_inbox
from wfdash.desk.edits import Draft, answer_pending, carries_edits, draft_of, say_edited
from wfdash.desk.finding import remember
from wfdash.desk.keys import once
from wfdash.edits import Edits
from wfdash.errors import Changed, Invalid, NotFound
from wfdash.workflow.policy import Policy

MOVED = "The run has moved on since this was shown: look at what would happen now"


@dataclass(frozen=True, kw_only=True)
class Step:
    """Which checkpoint a verb starts from, and what it needs of it."""

    chosen: Checkpoint
    draft: Draft | None
    requests: tuple[Request, ...]


def restore_run(
    viewer: Viewer,
    run_id: str,
    checkpoint_id: str,
    *,
    edits: Edits | None = None,
    seen: str = "",
    key: str | None = None,
) -> Checkpoint:
    """Make a chosen checkpoint the run's head again, with edits or as it is, and let the run go on from there.

    The new head is a new checkpoint (n + 1, reason restore or edit) whose parent is the chosen one, so history stays
    a tree and nothing is removed. The active worker is fenced at once. Requests that were pending at that point open
    again, the last answer as a suggestion; all others that are still open are superseded. ``seen``: the mark of the
    preview that was shown; ``Changed`` if the run has moved on since. ``Invalid`` with errors per field for edits that
    do not fit. ``Damaged`` or ``Incompatible`` leave the run as it is.
    """
    draft = _drafted(viewer, run_id, checkpoint_id, edits)
    command = [run_id, checkpoint_id, edits.model_dump(mode="json") if edits else None]
    with write(), once(viewer, key, "restore", command) as deed:
        if deed.before is not None:
            return Checkpoint.objects.get(pk=deed.before["checkpoint"])
        run = lock_run(find_run(viewer, run_id, right="operate"))
        step = _step(run, checkpoint_id, draft, seen, "restore")
        fence(run)
        run.refresh_from_db()
        again = step.chosen.n != run.n
        head = _write_head(step, run, n=run.n + 1, reason=Reason.RESTORE)
        _rewind(run, head, viewer, rewind.alterations(run.altered, *_how(again, draft)))
        _supersede_requests(run, step.requests, viewer)
        opened = [_reopen_request(run, request, origin=run) for request in step.requests]
        facts = say_edited(run, step.chosen, head, draft, viewer)
        audit.record_run(viewer, "restore", run, checkpoint=step.chosen.id, n=step.chosen.n, **facts)
        answer_pending(viewer, opened, draft)
        tell_inbox(run.workflow)
        hint(run.id)
        deed.keep(checkpoint=head.pk)
    return head


def fork_run(
    viewer: Viewer,
    run_id: str,
    checkpoint_id: str,
    *,
    edits: Edits | None = None,
    seen: str = "",
    key: str | None = None,
) -> Run:
    """Start a new run from a chosen checkpoint, with edits or as it is.

    The old run stays as it is, whatever it is doing. ``seen`` and errors as in ``restore_run``.
    """
    draft = _drafted(viewer, run_id, checkpoint_id, edits)
    command = [run_id, checkpoint_id, edits.model_dump(mode="json") if edits else None]
    with write(), once(viewer, key, "fork", command) as deed:
        if deed.before is not None:
            return Run.objects.get(pk=deed.before["run"])
        # Pruning takes the same lock: what the fork shares cannot vanish in between.
        origin = lock_run(find_run(viewer, run_id, right="operate"))
        step = _step(origin, checkpoint_id, draft, seen, "fork")
        fork = _create_fork(origin, step)
        head = _write_head(step, fork, n=1, reason=Reason.FORK)
        chosen: dict[str, Any] = {"checkpoint": step.chosen.id, "n": step.chosen.n}
        append_event(fork, "run.forked", {"by": viewer.name, "run": origin.id, **chosen})
        opened = [_reopen_request(fork, request, origin=origin) for request in step.requests]
        facts = say_edited(fork, step.chosen, head, draft, viewer)
        audit.record_run(viewer, "fork", fork, origin=origin.id, **chosen, **facts)
        answer_pending(viewer, opened, draft)
        remember(fork, fork.input)
        tell_inbox(fork.workflow)
        hint(fork.id)
        deed.keep(run=fork.pk)
    return fork


def label_checkpoint(
    viewer: Viewer, run_id: str, checkpoint_id: str, label: str, *, key: str | None = None
) -> Checkpoint:
    """Give a checkpoint a label, by which it is found and kept; an empty one takes it away."""
    text = label.strip() or None
    try:
        rules.check_label(text)
    except ValueError:
        raise Invalid([{"loc": ["label"], "msg": f"Give at most {rules.MAX_LABEL} characters"}]) from None
    with write(), once(viewer, key, "label", [run_id, checkpoint_id, text]) as deed:
        run = find_run(viewer, run_id, right="operate")
        chosen = find_checkpoint(run, checkpoint_id)
        if deed.before is not None or chosen.label == text:
            return chosen
        Checkpoint.objects.filter(pk=chosen.pk).update(label=text)
        facts: dict[str, Any] = {"checkpoint": chosen.pk, "n": chosen.n, "label": text or ""}
        append_event(run, "run.labelled", {"by": viewer.name, **facts})
        audit.record_run(viewer, "label", run, was=chosen.label or "", **facts)
        chosen.label = text
        return chosen


def find_checkpoint(run: Run, checkpoint_id: str) -> Checkpoint:
    """Return a checkpoint of this run, or ``NotFound``: another run's is not found either."""
    chosen = Checkpoint.objects.filter(run=run, pk=checkpoint_id).first()
    if chosen is None:
        raise NotFound("There is no such checkpoint in this run")
    return chosen


def _drafted(viewer: Viewer, run_id: str, checkpoint_id: str, edits: Edits | None) -> Draft | None:
    """Check the edits before the transaction: that is the author's code."""
    if edits is None:
        return None
    return draft_of(find_checkpoint(find_run(viewer, run_id, right="operate"), checkpoint_id), edits)


def _how(again: bool, draft: Draft | None) -> list[str]:
    return (["restored"] if again or draft is None else []) + (["edited"] if draft else [])


def _step(run: Run, checkpoint_id: str, draft: Draft | None, seen: str, verb: str) -> Step:
    chosen = find_checkpoint(run, checkpoint_id)
    if seen and seen != rewind.mark(run, chosen, verb):
        raise Changed(MOVED)
    requests = read_row(chosen).requests if draft is None else draft.edited.requests
    return Step(chosen=chosen, draft=draft, requests=requests)


def _write_head(step: Step, run: Run, *, n: int, reason: Reason) -> Checkpoint:
    """Insert the chosen content as a new checkpoint; what is not edited is shared, not copied."""
    chosen, draft = step.chosen, step.draft
    if draft is not None:
        return insert_row(draft.record_for(run.pk, n), run, seq=run.seq + 1)
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


def _supersede_requests(run: Run, kept: tuple[Request, ...], viewer: Viewer) -> None:
    """Close what is pending; what will not be asked again is said to be withdrawn."""
    pending = HumanRequest.objects.filter(run=run, closed__isnull=True)
    again = {request.key for request in kept}
    gone = [request for request in pending.order_by("created", "id") if request.key not in again]
    pending.update(closed=timezone.now(), closed_as="superseded", settles=None)
    for request in gone:
        facts = {"request": request.pk, "key": request.key, "subject": rewind.subject_of(request), "by": viewer.name}
        append_event(run, "request.withdrawn", facts, step=request.step)


def _reopen_request(run: Run, request: Request, *, origin: Run) -> HumanRequest:
    """Ask again what was pending at the checkpoint; whoever decides sees what was answered the last time."""
    earlier = HumanRequest.objects.filter(run=origin, key=request.key).order_by("-created", "-id").first()
    policy, now = Policy.model_validate(request.policy), timezone.now()
    # Asked anew, it has its whole time again: the old deadline would decide it at once.
    due = now + policy.due if policy.due else request.due
    row = HumanRequest.objects.create(
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
        suggestion=_suggestion(origin.pk, request),
    )
    facts = {"request": row.pk, "key": row.key, "subject": rewind.subject_of(row)}
    append_event(run, "request.opened", facts, step=row.step)
    return row


def _suggestion(run_id: str, request: Request) -> dict[str, Any] | None:
    given = rewind.earlier_answers(run_id, [request.key]).get(request.key)
    if given is None:
        return None
    by = given.by.get_username() if given.by else None
    return {"value": given.value, "verdict": given.verdict, "by": by, "at": given.at.isoformat()}


def _rewind(run: Run, head: Checkpoint, viewer: Viewer, altered: str) -> None:
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
        noted=False,
        altered=altered,
        acted_by=viewer.name,
    )
    append_event(run, "run.restored", {"by": viewer.name, "checkpoint": head.parent, "n": head.n})


def _create_fork(origin: Run, step: Step) -> Run:
    now = timezone.now()
    inherited = "edited" if step.draft or carries_edits(origin, step.chosen) else ""
    return Run.objects.create(
        id=ids.new_run_id(),
        family=origin.family,
        forked_from=step.chosen.id,
        workflow=origin.workflow,
        version=step.chosen.version,
        engine=origin.engine,
        title=origin.title,
        input=step.draft.input_of(origin) if step.draft else origin.input,
        n=1,
        altered=rewind.alterations(inherited),
        # The requester stays who they were, so that a fork is no way around "not by the requester".
        created_by=origin.created_by,
        created=now,
        updated=now,
    )
