"""Restore a checkpoint in place, fork a new run from it, either with edits; label it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.runs import copy_row, insert_row, made_ready, read_row
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.limits import problem_of
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import Reason, Request
from checkpoints.rules import Priority, card_subject
from checkpoints.sql.tables import request_row, run_row
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.actions.checkpoints.edits import (
    EditedCheckpoint,
    bind_editor,
    carries_edits,
    draft_of,
    give_answers,
    refuse_past_answers,
    say_edited,
)
from wfdash.actions.common import append_event, fence, find_checkpoint, find_run, lock_run, notify_inbox, notify_workers
from wfdash.actions.idempotency import idempotent, made_before, previous_result
from wfdash.actions.runs.names import names_of_fork
from wfdash.actions.runs.search_index import index_run
from wfdash.contract import Edits
from wfdash.errors import Changed, Invalid, WrongState
from wfdash.questions.policy import Policy
from wfdash.timemachine import restore_point

MOVED = "The run changed since this preview. Review again"


@dataclass(frozen=True, kw_only=True)
class RestoreStart:
    """The checkpoint an action starts from, and what the action needs of it."""

    chosen: Checkpoint
    draft: EditedCheckpoint | None
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
    """Make a checkpoint the run's head again, with or without edits, resume the run from it, and return the new head.

    The new head is a new checkpoint (n + 1, reason restore or edit) whose parent is the chosen one, so history stays a
    tree and nothing is removed. The active worker is fenced at once. Requests that were pending at that point open
    again, the last answer as a suggestion; all others that are still open are superseded. ``seen``: the fingerprint of
    the preview that was shown; ``Changed`` if the run has moved on since. ``Invalid`` with errors per field for invalid
    edits. ``Damaged`` or ``Incompatible`` leave the run unchanged.
    """
    command = [run_id, checkpoint_id, edits.model_dump(mode="json") if edits else None]
    done = edits is not None and previous_result(viewer, key, "restore", command) is not None
    draft = None if done else _drafted(viewer, run_id, checkpoint_id, edits)
    with write(), idempotent(viewer, key, "restore", command) as call:
        if call.previous_result is not None:
            return made_before(Checkpoint, call.previous_result["checkpoint"])
        run = lock_run(find_run(viewer, run_id, right="operate"))
        step = _step(run, checkpoint_id, draft, seen, "restore")
        refuse_past_answers(viewer, run, step.chosen, draft)
        fence(run)
        run.refresh_from_db()
        again = step.chosen.n != run.n
        head = _write_head(step, run, n=run.n + 1, reason=Reason.RESTORE)
        _rewind(run, head, viewer, restore_point.alterations(run.altered, *_how(again, draft)))
        _supersede_requests(run, step.requests, viewer)
        opened = [_reopen_request(run, request, origin=run) for request in step.requests]
        bind_editor(run, viewer, draft)
        facts = say_edited(run, step.chosen, head, draft, viewer)
        entries.record_run(viewer, "restore", run, checkpoint=step.chosen.id, n=step.chosen.n, **facts)
        give_answers(viewer, opened, draft)
        notify_inbox(run.workflow)
        notify_workers(run.id)
        call.record(checkpoint=head.pk)
    return head


def answer_again(viewer: Viewer, run_id: str, *, key: str | None = None) -> Checkpoint:
    """Restore a run to the question whose answer its step failed with, and return the new head.

    The answer that was given is the suggestion. ``WrongState`` unless the run failed in the step answered last.
    """
    with write(), idempotent(viewer, key, "answer again", [run_id]) as call:
        if call.previous_result is not None:
            return made_before(Checkpoint, call.previous_result["checkpoint"])
        run = lock_run(find_run(viewer, run_id, right="operate"))
        chosen = restore_point.last_pause(run)
        if chosen is None:
            raise WrongState("The run did not fail in the step answered last. Retry it, or restore a checkpoint")
        head = restore_run(viewer, run_id, chosen.pk)
        call.record(checkpoint=head.pk)
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
    """Start a new run from a checkpoint, with or without edits, and return it.

    The original run is not changed, whatever its status. ``seen`` and errors as in ``restore_run``.
    """
    command = [run_id, checkpoint_id, edits.model_dump(mode="json") if edits else None]
    done = edits is not None and previous_result(viewer, key, "fork", command) is not None
    draft = None if done else _drafted(viewer, run_id, checkpoint_id, edits)
    with write(), idempotent(viewer, key, "fork", command) as call:
        if call.previous_result is not None:
            return made_before(Run, call.previous_result["run"])
        # Pruning takes the same lock: what the fork shares cannot be deleted in between.
        origin = lock_run(find_run(viewer, run_id, right="operate"))
        step = _step(origin, checkpoint_id, draft, seen, "fork")
        refuse_past_answers(viewer, origin, step.chosen, draft)
        fork = _create_fork(origin, step)
        head = _write_head(step, fork, n=1, reason=Reason.FORK)
        chosen: dict[str, Any] = {"checkpoint": step.chosen.id, "n": step.chosen.n}
        append_event(fork, EventKind.RUN_FORKED.draft(by=viewer.name, run=origin.id, **chosen))
        opened = [_reopen_request(fork, request, origin=origin) for request in step.requests]
        bind_editor(fork, viewer, draft)
        facts = say_edited(fork, step.chosen, head, draft, viewer)
        entries.record_run(viewer, "fork", fork, origin=origin.id, **chosen, **facts)
        give_answers(viewer, opened, draft)
        index_run(fork, fork.input)
        notify_inbox(fork.workflow)
        notify_workers(fork.id)
        call.record(run=fork.pk)
    return fork


def label_checkpoint(
    viewer: Viewer, run_id: str, checkpoint_id: str, label: str, *, key: str | None = None
) -> Checkpoint:
    """Set a checkpoint's label, by which it is found and kept; an empty one removes it."""
    text = label.strip() or None
    if text is not None and (problem := problem_of("label", text)):
        raise Invalid([{"loc": ["label"], "msg": problem.removeprefix("label: ")}])
    with write(), idempotent(viewer, key, "label", [run_id, checkpoint_id, text]) as call:
        run = lock_run(find_run(viewer, run_id, right="operate"))
        chosen = find_checkpoint(run, checkpoint_id)
        if call.previous_result is not None or chosen.label == text:
            return chosen
        Checkpoint.objects.filter(pk=chosen.pk).update(label=text)
        facts: dict[str, Any] = {"checkpoint": chosen.pk, "n": chosen.n, "label": text or ""}
        append_event(run, EventKind.RUN_LABELLED.draft(by=viewer.name, **facts))
        entries.record_run(viewer, "label", run, was=chosen.label or "", **facts)
        chosen.label = text
        return chosen


def _drafted(viewer: Viewer, run_id: str, checkpoint_id: str, edits: Edits | None) -> EditedCheckpoint | None:
    """Return the edited checkpoint, before the transaction, because checking edits runs the author's code."""
    if edits is None:
        return None
    return draft_of(find_checkpoint(find_run(viewer, run_id, right="operate"), checkpoint_id), edits)


def _how(again: bool, draft: EditedCheckpoint | None) -> list[str]:
    return (["restored"] if again or draft is None else []) + (["edited"] if draft else [])


def _step(run: Run, checkpoint_id: str, draft: EditedCheckpoint | None, seen: str, verb: str) -> RestoreStart:
    chosen = find_checkpoint(run, checkpoint_id)
    if seen and seen != restore_point.mark(run, chosen, verb):
        raise Changed(MOVED)
    requests = read_row(chosen).requests if draft is None else draft.edited.requests
    return RestoreStart(chosen=chosen, draft=draft, requests=requests)


def _write_head(step: RestoreStart, run: Run, *, n: int, reason: Reason) -> Checkpoint:
    """Insert the chosen content as a new checkpoint and return it; unedited content is shared, not copied."""
    chosen, draft = step.chosen, step.draft
    if draft is not None:
        return insert_row(draft.record_for(run.pk, n), run, seq=run.seq + 1)
    return copy_row(chosen, run, n=n, reason=reason, seq=run.seq + 1)


def _supersede_requests(run: Run, kept: tuple[Request, ...], viewer: Viewer) -> None:
    """Close the pending requests; those that will not be asked again are announced as withdrawn."""
    pending = HumanRequest.objects.filter(run=run, closed__isnull=True)
    again = {request.key for request in kept}
    gone = [request for request in pending.order_by("created", "id") if request.key not in again]
    pending.update(closed=timezone.now(), closed_as="superseded", settles=None)
    for request in gone:
        subject = card_subject(request.card, request.step)
        facts = {"request": request.pk, "key": request.key, "subject": subject, "by": viewer.name}
        append_event(run, EventKind.REQUEST_WITHDRAWN.draft(request.step, **facts))


def _reopen_request(run: Run, request: Request, *, origin: Run) -> HumanRequest:
    """Return a new request for one that was pending at the checkpoint, with its last answer as a suggestion."""
    earlier = HumanRequest.objects.filter(run=origin, key=request.key).order_by("-created", "-id").first()
    policy, now = Policy.model_validate(request.policy), timezone.now()
    # Its deadline starts over: the old one would decide it at once.
    due = now + policy.due if policy.due else request.due
    again = request.model_copy(update={"due": due, "alarm": policy.next_alarm(now, due, now)})
    row = HumanRequest.objects.create(
        **request_row(ids.new_request_id(), run.pk, run.workflow, again),
        created=now,
        replaces=earlier.id if earlier and run == origin else None,
        suggestion=_suggestion(origin.pk, request),
    )
    facts = {"request": row.pk, "key": row.key, "subject": card_subject(row.card, row.step)}
    append_event(run, EventKind.REQUEST_OPENED.draft(row.step, **facts))
    return row


def _suggestion(run_id: str, request: Request) -> dict[str, Any] | None:
    given = restore_point.earlier_answers(run_id, [request.key]).get(request.key)
    return None if given is None else restore_point.as_suggestion(given)


def _rewind(run: Run, head: Checkpoint, viewer: Viewer, altered: str) -> None:
    Run.objects.filter(pk=run.pk).update(
        n=head.n,
        **made_ready(Priority.RESUMED),
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
    append_event(run, EventKind.RUN_RESTORED.draft(by=viewer.name, checkpoint=head.parent, n=head.n))


def _create_fork(origin: Run, step: RestoreStart) -> Run:
    now = timezone.now()
    inherited = "edited" if step.draft or carries_edits(origin, step.chosen) else ""
    made: dict[str, Any] = {"engine": origin.engine, "title": origin.title, "family": origin.family}
    made |= {"workflow": origin.workflow, "version": step.chosen.version, "forked_from": step.chosen.id}
    message = step.draft.input_of(origin) if step.draft else origin.input
    return Run.objects.create(
        **run_row(ids.new_run_id(), n=1, **made),
        **names_of_fork(origin, message),
        input=message,
        # The same turn, taken another way. A fork of a thread's first run begins a thread of its own.
        follows=origin.follows,
        follows_n=origin.follows_n,
        thread=origin.thread if origin.follows else None,
        altered=restore_point.alterations(inherited),
        # The requester stays the same, so that a fork is no way around "not by the requester".
        created_by=origin.created_by,
        requesters=origin.requesters,
        created=now,
        updated=now,
    )
