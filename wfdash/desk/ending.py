"""Ending a run for good: at once, which fences its worker, or as soon as the step that runs has ended."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints import records
from checkpoints.models import Claim, HumanRequest, Run
from checkpoints.orm import write
from checkpoints.records import ENDED, Phase
from wfdash import nudge, underway
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.desk.common import append_event, fence, find_run, hint, lock_run, move_run, tell_inbox
from wfdash.desk.keys import once
from wfdash.errors import WrongState


def cancel_run(viewer: Viewer, run_id: str, *, after_step: bool = False, key: str | None = None) -> Run:
    """End a run for good; its open requests are closed. It stays so.

    Its worker is fenced at once, and the event names what that cut off: the steps that ran (``fenced``) and the
    ``once`` calls of which nobody knows whether they happened (``unsure``). ``after_step``: let the step that runs
    end, keep what it did, and start no other; where nothing runs, that is at once.
    """
    with write(), once(viewer, key, "cancel", [run_id, after_step]) as deed:
        run = lock_run(find_run(viewer, run_id, right="operate"))
        if deed.before is not None:
            return run
        if after_step and run.phase == Phase.READY and underway.is_driven(run):
            return _end_later(viewer, run)
        cut = underway.of_run(run)
        now = timezone.now()
        move_run(run, ~Q(phase__in=ENDED), "cancel", viewer, phase=Phase.CANCELLED, finished=now, wake_at=None)
        _close(run, viewer.name, fenced=list(cut.steps), unsure=list(cut.calls))
        audit.record_run(viewer, "cancel", run, fenced=list(cut.steps), unsure=list(cut.calls))
    return run


def end_after_step(claim: records.Claim, after: str = "", begun: frozenset[str] = frozenset()) -> bool:
    """Cancel the run of this claim, of which a step has just ended, if somebody asked for that; say whether.

    ``after``: that step. ``begun``: the steps that were to start next, and did not.
    """
    with write():
        run = Run.objects.select_for_update().filter(pk=claim.run, epoch=claim.epoch).first()
        if run is None or not run.ending:
            return False
        return _end(run, after, begun)


def end_abandoned(limit: int = 100) -> int:
    """Cancel runs that were to end after a step but have no worker any more; tell the workers of the others again."""
    live = Exists(Claim.objects.filter(run=OuterRef("pk"), expires__gt=Now()))
    asked = Run.objects.exclude(ending="").annotate(driven=live).values_list("pk", "driven")
    ended = 0
    for run_id, driven in list(asked[:limit]):
        if driven:
            nudge.runs_due.ring(run_id)
            continue
        with write():
            run = Run.objects.select_for_update().exclude(ending="").filter(pk=run_id).first()
            ended += bool(run and not _is_held_live(run) and _end(run, "", frozenset()))
    return ended


def _end_later(viewer: Viewer, run: Run) -> Run:
    if run.ending:
        raise WrongState(f"{run.ending} asked for that already: it ends as soon as the step has")
    Run.objects.filter(pk=run.pk).update(ending=viewer.name)
    append_event(run, "run.ending", {"by": viewer.name})
    audit.record_run(viewer, "cancel", run, after_step=True)
    hint(run.id)
    run.refresh_from_db()
    return run


def _is_held_live(run: Run) -> bool:
    return Claim.objects.filter(run=run, expires__gt=Now()).exists()


def _end(run: Run, after: str, begun: frozenset[str]) -> bool:
    by = run.ending
    if run.phase in ENDED:
        Run.objects.filter(pk=run.pk).update(ending="")
        return False
    cut, now = underway.of_run(run), timezone.now()
    ended: dict[str, Any] = {"phase": Phase.CANCELLED, "finished": now, "wake_at": None, "updated": now, "acted_by": by}
    Run.objects.filter(pk=run.pk).update(**ended)
    fence(run)
    _close(run, by, after=after, fenced=[step for step in cut.steps if step not in begun], unsure=list(cut.calls))
    return True


def _close(run: Run, by: str, **cut: list[str] | str) -> None:
    open_ = HumanRequest.objects.filter(run=run, closed__isnull=True)
    open_.update(closed=timezone.now(), closed_as="cancelled")
    append_event(run, "run.cancelled", {"by": by, **{name: found for name, found in cut.items() if found}})
    hint(run.id)
    tell_inbox(run.workflow)
