"""What was answered before a checkpoint, and whether a person may still change values there. Read-only."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from checkpoints import records
from checkpoints.events import EventKind
from checkpoints.models import FOR_PEOPLE, AuditEntry, Checkpoint, Event, HumanRequest, Run
from checkpoints.records import Reason
from checkpoints.rules import card_subject
from wfdash.access.viewer import Origin, Viewer, origin_of
from wfdash.contract import Edited
from wfdash.errors import Invalid
from wfdash.questions.policy import Policy
from wfdash.schemas.validate import Problem

JUMPS = (Reason.RESTORE.value, Reason.EDIT.value, Reason.FORK.value, Reason.FOLLOW_UP.value)
"""Copies of their parent: what happened between the two is another branch, or did not change the values."""
LOST = "what was answered there. Values can no longer be changed here. Start a new run with them."
Span = tuple[str, int, int, int]
"""A run, the events after this one and up to that one, and the number of the checkpoint before them."""


def answered_before(chosen: Checkpoint, *, but: Collection[str]) -> list[tuple[HumanRequest, int]]:
    """Return the questions to people whose answers a checkpoint depends on, newest first.

    Each with the number of the checkpoint at which it was still open. ``but``: keys of questions that are asked again.
    Follows the branch of the checkpoint, into the runs it was forked from or follows up on.
    """
    spans = list(_spans(chosen))
    runs: dict[str, list[tuple[int, str]]] = {}
    for run_id in dict.fromkeys(span[0] for span in spans):
        answered = Event.objects.filter(run_id=run_id, kind=EventKind.REQUEST_ANSWERED).order_by("-seq")
        runs[run_id] = [(event.seq, str(event.data.get("request"))) for event in answered]
    places = {one: n for run_id, after, until, n in spans for seq, one in runs[run_id] if after < seq <= until}
    rows = HumanRequest.objects.filter(FOR_PEOPLE).select_related("answer", "answer__by").in_bulk(list(places))
    return [(rows[one], n) for one, n in places.items() if one in rows and rows[one].key not in but]


def refuse_edits(
    viewer: Viewer,
    run: Run,
    chosen: Checkpoint,
    record: records.Checkpoint,
    edited: Edited,
    *,
    asked_again: Collection[str],
    reason: str,
) -> None:
    """Raise ``Invalid`` where edits would change what was approved, and this person may not decide that.

    ``record``: the chosen checkpoint. ``asked_anew``: keys of questions of steps that restart.
    """
    if edited.words:
        again = {*(request.key for request in record.requests), *asked_again}
        problem = edit_problem(viewer, run, chosen, but=again, reason=reason)
        if problem is not None:
            raise Invalid([problem])


def edit_problem(viewer: Viewer, run: Run, chosen: Checkpoint, *, but: Collection[str], reason: str) -> Problem | None:
    """Return why this person must not change values at a checkpoint; None if they may.

    Changing what was approved is deciding in place of its approvers: only people who could override the answers may,
    and with a reason. Others change the values where the question is still open, so that it is asked again.
    """
    if gone := _deleted_origin(run.pk):
        return {"loc": [], "msg": f"Run {gone}, from which this one comes, was deleted with {LOST}"}
    found = answered_before(chosen, but=but)
    known = origin_of(run)
    editing = Origin(starter=known.starter, others=known.others | {viewer.name})
    for request, n in found:
        policy = Policy.model_validate(request.policy or {})
        if viewer.excluded(request.not_by, editing) or not policy.override:
            return {"loc": [], "msg": _approval_text(request, n, run)}
    if found and not reason.strip():
        first, _ = found[0]
        subject = card_subject(first.card, first.step)
        msg = f"“{subject}” was answered before this. Give a reason for changing what was decided"
        return {"loc": ["reason"], "msg": msg}
    return None


def _deleted_origin(run_id: str) -> str:
    """Return a deleted ancestor of this run that asked people; empty if there is none.

    Runs and their answers can be deleted, entries of the audit cannot.
    """
    while True:
        forked = AuditEntry.objects.filter(run=run_id, verb__in=("fork", "follow-up")).first()
        run_id = str(forked.facts.get("origin") or "") if forked else ""
        if not run_id:
            return ""
        asked = AuditEntry.objects.filter(run=run_id).exclude(request="")
        if asked.exists() and not Run.objects.filter(pk=run_id).exists():
            return run_id


def _approval_text(request: HumanRequest, n: int, run: Run) -> str:
    answer = getattr(request, "answer", None)
    by = answer.by.get_username() if answer is not None and answer.by else "a deadline"
    where = f"checkpoint {n}" if n else "the checkpoint where it is asked"
    where += "" if request.run_id == run.pk else f" of run {request.run_id}"
    return (
        f"“{card_subject(request.card, request.step)}” was answered by {by} before this and requires a second "
        f"person. Values can no longer be changed here. Change them at {where} to ask again."
    )


def _spans(chosen: Checkpoint) -> Iterator[Span]:
    """Yield the events that led to a checkpoint, one step back at a time (one query per run).

    Where the previous checkpoint was pruned, everything earlier counts: too much rather than too little.
    """
    known = _checkpoints_of(chosen.run_id, chosen.n)
    here: Checkpoint | None = known[chosen.pk]
    while here is not None:
        parent = known.get(here.parent or "")
        if parent is None and here.parent:
            origin = Checkpoint.objects.filter(pk=here.parent).only("run_id", "n").first()
            known = _checkpoints_of(origin.run_id, origin.n) if origin else {}
            parent = known.get(here.parent)
        if parent is None:
            yield here.run_id, 0, here.seq, 0
            yield from _everything_in_family(here) if here.parent else ()
        elif here.reason not in JUMPS:
            yield here.run_id, parent.seq, here.seq, parent.n
        here = parent


def _everything_in_family(checkpoint: Checkpoint) -> Iterator[Span]:
    run = Run.objects.only("family", "forked_from", "follows").get(pk=checkpoint.run_id)
    if run.forked_from or run.follows:
        others = Run.objects.filter(family=run.family).exclude(pk=run.pk).values_list("id", "seq")
        yield from ((run_id, 0, seq, 0) for run_id, seq in others)


def _checkpoints_of(run_id: str, n: int) -> dict[str, Checkpoint]:
    rows = Checkpoint.objects.filter(run_id=run_id, n__lte=n).only("id", "run_id", "n", "parent", "reason", "seq")
    return {row.pk: row for row in rows}
