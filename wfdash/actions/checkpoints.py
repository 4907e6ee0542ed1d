"""Actions on checkpoints: restore, fork and edit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.runs import copy_row, insert_row, made_ready, read_row
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.limits import NAME, problem_of
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import FORMAT, Json, JsonObject, Reason, Request, frozen
from checkpoints.records import Checkpoint as Record
from checkpoints.rules import Priority, card_subject
from checkpoints.sql.tables import request_row, run_row
from wfdash.access.viewer import Viewer
from wfdash.actions import audit
from wfdash.actions.common import append_event, fence, find_checkpoint, find_run, lock_run, notify_inbox, notify_workers
from wfdash.actions.pacing import idempotent, made_before, previous_result
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import names_of_fork
from wfdash.actions.runs.search_index import index_run
from wfdash.contract import Edited, Edits
from wfdash.domain.errors import Changed, Invalid, WrongState
from wfdash.domain.search_attributes import cleaned
from wfdash.queries import timemachine
from wfdash.queries.timemachine import patch_of, refuse_edits
from wfdash.questions.policy import Policy

MOVED = "The run changed since this preview. Review again"


@frozen
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
        how = [*(["restored"] if again or draft is None else []), *(["edited"] if draft else [])]
        _rewind(run, head, viewer, timemachine.alterations(run.altered, *how))
        _supersede_requests(run, step.requests, viewer)
        opened = [_reopen_request(run, request, origin=run) for request in step.requests]
        bind_editor(run, viewer, draft)
        facts = say_edited(run, step.chosen, head, draft, viewer)
        audit.record_run(viewer, "restore", run, checkpoint=step.chosen.id, n=step.chosen.n, **facts)
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
        chosen = timemachine.last_pause(run)
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
        chosen: JsonObject = {"checkpoint": step.chosen.id, "n": step.chosen.n}
        append_event(fork, EventKind.RUN_FORKED.draft(by=viewer.name, run=origin.id, **chosen))
        opened = [_reopen_request(fork, request, origin=origin) for request in step.requests]
        bind_editor(fork, viewer, draft)
        facts = say_edited(fork, step.chosen, head, draft, viewer)
        audit.record_run(viewer, "fork", fork, origin=origin.id, **chosen, **facts)
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
    if label.strip() and (problem := problem_of("label", label.strip())):
        raise Invalid.at("label", problem.removeprefix("label: "))
    text = cleaned(label, NAME) or None
    with write(), idempotent(viewer, key, "label", [run_id, checkpoint_id, text]) as call:
        run = lock_run(find_run(viewer, run_id, right="operate"))
        chosen = find_checkpoint(run, checkpoint_id)
        if call.previous_result is not None or chosen.label == text:
            return chosen
        Checkpoint.objects.filter(pk=chosen.pk).update(label=text)
        facts: JsonObject = {"checkpoint": chosen.pk, "n": chosen.n, "label": text or ""}
        append_event(run, EventKind.RUN_LABELLED.draft(by=viewer.name, **facts))
        audit.record_run(viewer, "label", run, was=chosen.label or "", **facts)
        chosen.label = text
        return chosen


def _drafted(viewer: Viewer, run_id: str, checkpoint_id: str, edits: Edits | None) -> EditedCheckpoint | None:
    """Return the edited checkpoint, before the transaction, because checking edits runs the author's code."""
    if edits is None:
        return None
    return draft_of(find_checkpoint(find_run(viewer, run_id, right="operate"), checkpoint_id), edits)


def _step(run: Run, checkpoint_id: str, draft: EditedCheckpoint | None, seen: str, verb: str) -> RestoreStart:
    chosen = find_checkpoint(run, checkpoint_id)
    if seen and seen != timemachine.mark(run, chosen, verb):
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
    given = timemachine.earlier_answers(origin.pk, [request.key]).get(request.key)
    row = HumanRequest.objects.create(
        **request_row(ids.new_request_id(), run.pk, run.workflow, again),
        created=now,
        replaces=earlier.id if earlier and run == origin else None,
        suggestion=None if given is None else timemachine.as_suggestion(given),
    )
    facts = {"request": row.pk, "key": row.key, "subject": card_subject(row.card, row.step)}
    append_event(run, EventKind.REQUEST_OPENED.draft(row.step, **facts))
    return row


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
    made: JsonObject = {"engine": origin.engine, "title": origin.title, "family": origin.family}
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
        altered=timemachine.alterations(inherited),
        # The requester stays the same, so that a fork is no way around "not by the requester".
        created_by=origin.created_by,
        requesters=origin.requesters,
        listed=True,
        created=now,
        updated=now,
    )


# Edits of a checkpoint, applied to a run: checked before the transaction, stored and recorded within it.

MOST_PATCH = 100_000
"""Characters of a patch stored in the audit entry; of a longer one its fingerprint is."""


@frozen
class EditedCheckpoint:
    """A checkpoint with its edits applied."""

    record: Record
    edits: Edits
    edited: Edited
    asked_again: frozenset[str]
    """The keys of questions that were answered and are asked again because their step restarts."""

    def record_for(self, run_id: str, n: int) -> Record:
        """Return the edited checkpoint as the record of checkpoint ``n`` of a run."""
        changes = {
            "id": ids.new_checkpoint_id(),
            "run": run_id,
            "n": n,
            "parent": self.record.id,
            "reason": Reason.EDIT,
            "label": None,
            "created": timezone.now(),
            "format": FORMAT,
            "body": self.edited.body,
            "requests": self.edited.requests,
        }
        return self.record.model_copy(update=changes)

    def input_of(self, origin: Run) -> Json:
        """Return the input of a run that starts here."""
        return self.edited.input[0] if self.edited.input else origin.input

    @property
    def facts(self) -> JsonObject:
        """Return what was changed, for the audit: a description, and the patch of what is shown."""
        patch = patch_of(self.record, self.edited)
        size = len(json.dumps(patch))
        facts = {"words": list(self.edited.words), "answered": sorted(self.edits.answers), "reason": self.edits.reason}
        if size <= MOST_PATCH:
            return facts | {"patch": patch}
        text = json.dumps(patch, sort_keys=True).encode()
        return facts | {"patch_size": size, "patch_hash": sha256(text).hexdigest()}


def draft_of(chosen: Checkpoint, edits: Edits) -> EditedCheckpoint:
    """Return a checkpoint with its edits applied. ``Invalid`` with errors per field, ``Incompatible``, ``WrongState``,
    ``Damaged``.
    """
    record = read_row(chosen)
    edited = timemachine.edit_checkpoint(record, edits)
    doing = timemachine.doing_at(record) if edits.messages else ()
    again = frozenset(key for one in doing if one.activation in edits.messages for key in one.answers)
    return EditedCheckpoint(record=record, edits=edits, edited=edited, asked_again=again)


def say_edited(
    run: Run, chosen: Checkpoint, head: Checkpoint, draft: EditedCheckpoint | None, viewer: Viewer
) -> JsonObject:
    """Append the event about the edits to the run, and return the facts for the audit; empty without edits."""
    if draft is None:
        return {}
    facts = draft.facts
    append_event(run, EventKind.RUN_EDITED.draft(by=viewer.name, checkpoint=chosen.pk, n=head.n, **facts))
    return facts


def refuse_past_answers(viewer: Viewer, run: Run, chosen: Checkpoint, draft: EditedCheckpoint | None) -> None:
    """Raise ``Invalid`` where the edits would change what was approved and this person may not decide that."""
    if draft is not None:
        again, reason = draft.asked_again, draft.edits.reason
        refuse_edits(viewer, run, chosen, draft.record, draft.edited, asked_again=again, reason=reason)


def bind_editor(run: Run, viewer: Viewer, draft: EditedCheckpoint | None) -> None:
    """Count the person who edited the run's values as its requester from now on, in all its forks too."""
    if draft is not None and draft.edited.words:
        _bind(run, viewer)


def give_answers(viewer: Viewer, opened: Sequence[HumanRequest], draft: EditedCheckpoint | None) -> None:
    """Answer, like any other answer, what the edits answer. A person who may not answer needs a reason to override.

    They have changed the values the run continues with, so they count as its requester for later requests.
    """
    given: JsonObject = {str(key): value for key, value in draft.edits.answers.items()} if draft else {}
    answered = [request for request in opened if request.key in given]
    for request in answered:
        override, reason = viewer.right_to(request) is None, draft.edits.reason if draft else ""
        answer_request(viewer, request.pk, given[request.key], reason=reason, via="edit", override=override)
    if answered:
        _bind(answered[0].run, viewer)


def _bind(run: Run, viewer: Viewer) -> None:
    names = sorted({*(run.requesters or ()), *viewer.names})
    Run.objects.filter(pk=run.pk).update(requesters=names)
    run.requesters = names


def carries_edits(run: Run, chosen: Checkpoint) -> bool:
    """Return whether a checkpoint descends from an edited one of its run (one query)."""
    rows = Checkpoint.objects.filter(run=run, n__lte=chosen.n).values_list("id", "parent", "reason")
    known = {row[0]: row[1:] for row in rows}
    here: str | None = chosen.pk
    while here in known:
        parent, reason = known[here]
        if reason == Reason.EDIT.value:
            return True
        here = parent
    return False
