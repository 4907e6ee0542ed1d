"""How an answer locks its request: in most cases nothing has happened since it was found, and one statement does."""

from __future__ import annotations

from checkpoints.models import HumanRequest, Run
from wfdash.access.viewer import Viewer
from wfdash.actions.common import find_request, lock_as_found, lock_rows, refuse_beyond
from wfdash.actions.requests.marks import are_known, has, marks_of
from wfdash.questions.policy import Policy


def lock_for_answer(viewer: Viewer, found: HumanRequest, *, at_once: bool) -> HumanRequest:
    """Return a request that this viewer found, with its marks, as stored now: its run is locked first.

    ``at_once``: the answer makes the run due, else it can be undone. Where one answer decides, the event that the
    caller appends next may be counted already.
    """
    if _is_decided_by_one(found):
        refuse_beyond(viewer, found)
        if lock_as_found(found.run, wake=at_once):
            return found
    lock_rows(Run.objects.filter(pk=found.run_id))
    return find_request(viewer, found.pk, marks_of)


def _is_decided_by_one(found: HumanRequest) -> bool:
    """Return whether the next answer decides: it is open, asks for one answer, and has none."""
    ended = found.answered or found.settles or found.closed
    open_ = are_known(found) and not ended and not has(found, "voted")
    return open_ and Policy.model_validate(found.policy).need == 1
