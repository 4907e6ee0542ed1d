"""Cancel and pause: at once, which fences the worker, or once the running step has ended. And resume."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints import records
from checkpoints.database.clock import database_now
from checkpoints.database.runs import made_ready
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import Claim, HumanRequest, Run
from checkpoints.records import ENDED, Phase
from checkpoints.rules import TIMED, Priority
from wfdash import pubsub
from wfdash.access.viewer import Viewer
from wfdash.actions import audit
from wfdash.actions.common import append_event, fence, find_run, lock_run, move_run, notify_inbox, notify_workers
from wfdash.actions.pacing import SweepBackoff, idempotent
from wfdash.domain.errors import WrongState
from wfdash.queries import timemachine

ENDING = Run.objects.exclude(ending="")
"""Runs that someone asked to end after a step."""
_backoff = SweepBackoff("Run %s could not be ended")


def cancel_run(viewer: Viewer, run_id: str, *, after_step: bool = False, key: str | None = None) -> Run:
    """Cancel a run, close its open requests and return it. This is final.

    Its worker is fenced at once, and the event names what was interrupted: the steps that ran (``fenced``) and the
    ``once`` calls whose outcome is unknown (``unsure``). ``after_step``: let the running step end, keep its result and
    start no other; where nothing runs, that is at once.
    """
    found = find_run(viewer, run_id, right="operate")
    before = timemachine.asked_before(found)
    with write(), idempotent(viewer, key, "cancel", [run_id, after_step]) as call:
        run = lock_run(found)
        if call.previous_result is not None:
            return run
        if after_step and run.phase == Phase.READY and timemachine.is_driven(run):
            return _end_later(viewer, run, Phase.CANCELLED)
        cut = timemachine.of_run(run, before)
        now = timezone.now()
        move_run(run, ~Q(phase__in=ENDED), "cancel", viewer, phase=Phase.CANCELLED, finished=now, wake_at=None)
        _close(run, viewer.name, fenced=list(cut.steps), unsure=list(cut.calls))
        audit.record_run(viewer, "cancel", run, fenced=list(cut.steps), unsure=list(cut.calls))
    return run


def pause_run(viewer: Viewer, run_id: str, *, now: bool = False, key: str | None = None) -> Run:
    """Pause a run until someone resumes it, and return it: no worker runs it, answers are kept.

    Running steps end first, and no other starts; where nothing runs, that is at once. ``now``: its worker is fenced at
    once, and interrupted steps run again from the top when the run is resumed.
    """
    found = find_run(viewer, run_id, right="operate")
    before = timemachine.asked_before(found)
    with write(), idempotent(viewer, key, "pause", [run_id, now]) as call:
        run = lock_run(found)
        if call.previous_result is not None:
            return run
        if not now and run.phase == Phase.READY and timemachine.is_driven(run):
            return _end_later(viewer, run, Phase.PAUSED)
        cut = timemachine.of_run(run, before).steps
        move_run(run, Q(phase__in=[Phase.READY, *TIMED]), "pause", viewer, phase=Phase.PAUSED)
        facts: dict[str, Any] = {"fenced": list(cut)} if cut else {}
        append_event(run, EventKind.RUN_PAUSED.draft(by=viewer.name, **facts))
        audit.record_run(viewer, "pause", run, **facts)
        notify_workers(run.id)
    return run


def resume_run(viewer: Viewer, run_id: str, *, force: bool = False, key: str | None = None) -> Run:
    """Resume a paused run from its latest checkpoint and return it; a held one is checked again. One that a program
    drives is handed over to workers, paused or not, unless the program executes it now (``WrongState``).

    It waits for synchronous functions that still run in the worker it was taken from. ``force``: it does not wait, also
    where it was resumed before; the same step may then run twice at once. A requested pause is withdrawn.
    """
    with write(), idempotent(viewer, key, "resume", [run_id, force]) as call:
        run = lock_run(find_run(viewer, run_id, right="operate"))
        if call.previous_result is not None:
            return run
        # The claim that keeps other workers off goes.
        forced = force and bool(Claim.objects.filter(run=run, epoch__lt=run.epoch).delete()[0])
        if run.phase == Phase.READY and run.ending and run.ending_as == Phase.PAUSED:
            Run.objects.filter(pk=run.pk).update(ending="")
        elif not (forced and run.phase == Phase.READY):
            if not run.for_workers and (program := timemachine.driver_of(run.pk)):
                raise WrongState(
                    f"The run's own program executes it now ({program}). Resume the run once that has ended"
                )
            resumable = Q(phase=Phase.PAUSED) | Q(phase__in=[Phase.READY, *TIMED], for_workers=False)
            move_run(run, resumable, "resume", viewer, error=None, **made_ready(Priority.STARTED))
        facts: dict[str, Any] = {"forced": True} if forced else {}
        append_event(run, EventKind.RUN_RESUMED.draft(by=viewer.name, **facts))
        audit.record_run(viewer, "resume", run, **facts)
        notify_workers(run.id)
        run.refresh_from_db()
    return run


def keep_claim(claim: records.Claim) -> None:
    """Keep other workers off a run that has ended while something of it still runs in its worker."""
    expires = database_now() + timedelta(seconds=claim.ttl)
    kept = {"token": claim.token, "worker": claim.worker, "epoch": -1, "ttl": claim.ttl, "expires": expires}
    with write():
        Claim.objects.get_or_create(run_id=claim.run, defaults=kept)


def forget_claims() -> int:
    """Remove claims that were fenced and have expired since. Returns how many."""
    with write():
        return Claim.objects.filter(epoch__lt=F("run__epoch"), expires__lte=Now()).delete()[0]


def end_after_step(
    claim: records.Claim, after: str = "", begun: frozenset[str] | None = frozenset(), *, drained: bool = True
) -> str:
    """Cancel or pause the run of this claim after a step has ended, if that was requested.

    Returns ``ended``; ``waits`` if it is to pause and other steps may still run (``drained`` false); else an empty
    string. ``after``: that step. ``begun``: the steps that were to start next, and did not; None where none runs.
    """
    with write():
        run = Run.objects.select_for_update().filter(pk=claim.run, epoch=claim.epoch).first()
        if run is None or not run.ending:
            return ""
        if run.ending_as == Phase.PAUSED and not drained and run.phase == Phase.READY:
            return "waits"
        return "ended" if _end(run, after, begun) else ""


def end_abandoned(limit: int = 100) -> int:
    """Cancel or pause runs that were to end after a step and have no worker any more; notify the workers of the
    others.
    """
    live = Exists(Claim.objects.filter(run=OuterRef("pk"), expires__gt=Now()))
    asked = ENDING.exclude(pk__in=_backoff.backed_off()).annotate(driven=live)
    found = list(asked.values_list("pk", "driven")[:limit])
    for run_id, driven in found:
        if driven:
            pubsub.runs_due.publish(run_id)
    return _backoff.run_each([run_id for run_id, driven in found if not driven], _end_abandoned)


def _end_abandoned(run_id: str) -> bool:
    with write():
        run = Run.objects.select_for_update().exclude(ending="").filter(pk=run_id).first()
        return bool(
            run and not Claim.objects.filter(run=run, expires__gt=Now()).exists() and _end(run, "", frozenset())
        )


def _end_later(viewer: Viewer, run: Run, how: Phase) -> Run:
    if run.ending and (run.ending_as == how or how is Phase.PAUSED):
        raise WrongState(f"{run.ending} already requested this. The run ends after the current step")
    Run.objects.filter(pk=run.pk).update(ending=viewer.name, ending_as=how)
    cancels = how is Phase.CANCELLED
    append_event(run, (EventKind.RUN_ENDING if cancels else EventKind.RUN_PAUSING).draft(by=viewer.name))
    audit.record_run(viewer, "cancel" if cancels else "pause", run, after_step=True)
    notify_workers(run.id)
    run.refresh_from_db()
    return run


def _end(run: Run, after: str, begun: frozenset[str] | None) -> bool:
    by = run.ending
    if run.phase in ENDED:
        Run.objects.filter(pk=run.pk).update(ending="")
        return False
    cut, now = timemachine.of_run(run), timezone.now()
    steps = [] if begun is None else [step for step in cut.steps if step not in begun]
    if run.ending_as == Phase.PAUSED:
        Run.objects.filter(pk=run.pk).update(phase=Phase.PAUSED, updated=now, acted_by=by)
        fence(run)
        append_event(run, EventKind.RUN_PAUSED.draft(by=by, **_facts(after=after, fenced=steps)))
        notify_workers(run.id)
        return True
    ended: dict[str, Any] = {"phase": Phase.CANCELLED, "finished": now, "wake_at": None, "updated": now, "acted_by": by}
    Run.objects.filter(pk=run.pk).update(**ended)
    fence(run)
    _close(run, by, after=after, fenced=steps, unsure=list(cut.calls))
    return True


def _close(run: Run, by: str, **cut: list[str] | str) -> None:
    open_ = HumanRequest.objects.filter(run=run, closed__isnull=True)
    open_.update(closed=timezone.now(), closed_as="cancelled")
    append_event(run, EventKind.RUN_CANCELLED.draft(by=by, **_facts(**cut)))
    notify_workers(run.id)
    notify_inbox(run.workflow)


def _facts(**cut: list[str] | str) -> dict[str, Any]:
    return {name: found for name, found in cut.items() if found}
