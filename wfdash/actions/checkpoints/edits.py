"""Edits of a checkpoint, applied to a run: checked before the transaction, stored and recorded within it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.database.runs import read_row
from checkpoints.events import EventKind
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import FORMAT, Json, Reason
from checkpoints.records import Checkpoint as Record
from wfdash.access.viewer import Viewer
from wfdash.actions.common import append_event
from wfdash.actions.requests.answer import answer_request
from wfdash.contract import Edited, Edits
from wfdash.timemachine import restore_point
from wfdash.timemachine.prior_answers import refuse_edits
from wfdash.timemachine.shown import patch_of

MOST_PATCH = 100_000
"""Characters of a patch stored in the audit entry; of a longer one its fingerprint is."""


@dataclass(frozen=True, kw_only=True)
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
    def facts(self) -> dict[str, Any]:
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
    edited = restore_point.edit_checkpoint(record, edits)
    doing = restore_point.doing_at(record) if edits.messages else ()
    again = frozenset(key for one in doing if one.activation in edits.messages for key in one.answers)
    return EditedCheckpoint(record=record, edits=edits, edited=edited, asked_again=again)


def say_edited(
    run: Run, chosen: Checkpoint, head: Checkpoint, draft: EditedCheckpoint | None, viewer: Viewer
) -> dict[str, Any]:
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
    given: dict[str, Json] = {str(key): value for key, value in draft.edits.answers.items()} if draft else {}
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
