"""Edits of a checkpoint on their way into a run: checked before the transaction, written down and told within it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import FORMAT, Json, Reason
from checkpoints.records import Checkpoint as Record
from checkpoints.rows import read_row
from wfdash import rewind
from wfdash.access import Viewer
from wfdash.desk.common import append_event
from wfdash.desk.requests import answer_request
from wfdash.edits import Edited, Edits

MOST_PATCH = 100_000
"""Characters of a patch that are kept with the act; of a longer one its fingerprint."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A checkpoint and what becomes of it."""

    record: Record
    edits: Edits
    edited: Edited

    def record_for(self, run_id: str, n: int) -> Record:
        """Return the edited checkpoint as the ``n``-th of a run."""
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
        """Return the input of a run that begins here."""
        return self.edited.input[0] if self.edited.input else origin.input

    @property
    def facts(self) -> dict[str, Any]:
        """What was changed, for the record: words, and the patch of the body."""
        patch = rewind.patch_of(self.record, self.edited)
        size = len(json.dumps(patch))
        said = {"words": list(self.edited.words), "answered": sorted(self.edits.answers), "reason": self.edits.reason}
        if size <= MOST_PATCH:
            return said | {"patch": patch}
        text = json.dumps(patch, sort_keys=True).encode()
        return said | {"patch_size": size, "patch_hash": sha256(text).hexdigest()}


def draft_of(chosen: Checkpoint, edits: Edits) -> Draft:
    """Check edits of a checkpoint; ``Invalid`` with errors per field, ``Incompatible``, ``WrongState``, ``Damaged``."""
    record = read_row(chosen)
    return Draft(record=record, edits=edits, edited=rewind.edit_checkpoint(record, edits))


def say_edited(run: Run, chosen: Checkpoint, head: Checkpoint, draft: Draft | None, viewer: Viewer) -> dict[str, Any]:
    """Tell the run what was changed, and return the facts for the record; nothing without edits."""
    if draft is None:
        return {}
    facts = draft.facts
    append_event(run, "run.edited", {"by": viewer.name, "checkpoint": chosen.pk, "n": head.n, **facts})
    return facts


def answer_pending(viewer: Viewer, opened: Iterable[HumanRequest], draft: Draft | None) -> None:
    """Answer, by the one door for answers, what the edits answer. Who may not answer needs a reason to override."""
    given: dict[str, Json] = {str(key): value for key, value in draft.edits.answers.items()} if draft else {}
    for request in opened:
        if draft is not None and request.key in given:
            requester = request.run.created_by.get_username() if request.run.created_by else None
            override = viewer.right_for(request.by, request.not_by, requester) is None
            answer_request(
                viewer, request.pk, given[request.key], reason=draft.edits.reason, via="edit", override=override
            )


def carries_edits(run: Run, chosen: Checkpoint) -> bool:
    """Say whether a checkpoint grew out of an edited one of its run (one query)."""
    rows = Checkpoint.objects.filter(run=run, n__lte=chosen.n).values_list("id", "parent", "reason")
    known = {row[0]: row[1:] for row in rows}
    here: str | None = chosen.pk
    while here in known:
        parent, reason = known[here]
        if reason == Reason.EDIT.value:
            return True
        here = parent
    return False
