"""Verbs on runs whose workflow has changed: migrate, override; and what workers do by themselves: carry or hold.

Whatever is refused leaves the run as it is. Answers are rows and stay where they are.
"""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from checkpoints import models, records
from checkpoints.errors import ClaimLost, Incompatible
from checkpoints.fields import sealed_for
from checkpoints.models import HumanRequest, Run
from checkpoints.orm import write
from checkpoints.records import ErrorInfo, Phase
from checkpoints.rows import insert_row
from wfdash import catalog, rewind, versions
from wfdash.access import Viewer
from wfdash.catalog import Entry
from wfdash.contract import Carried
from wfdash.desk import audit
from wfdash.desk.common import append_event, fence, find_run, hint, tell_inbox
from wfdash.desk.keys import once, recall
from wfdash.desk.runs import remember_version
from wfdash.errors import WrongState
from wfdash.skew import facts_of, migrated_checkpoint

OVER = [Phase.COMPLETED, Phase.CANCELLED]
MOST_HELD = 500
"""Held runs looked at by one ``release_held``."""


def migrate_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Carry a run over to the loaded graph by what its author declared, and let it go on.

    ``Incompatible`` says why that cannot be done; ``WrongState`` if there is nothing to migrate.
    """
    return _carry_over(viewer, run_id, override=False, key=key)


def override_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Let a run go on under the loaded graph as it stands, if its place and values are valid there."""
    return _carry_over(viewer, run_id, override=True, key=key)


def _carry_over(viewer: Viewer, run_id: str, *, override: bool, key: str | None) -> Run:
    run = find_run(viewer, run_id, right="operate")
    command = ("override graph" if override else "migrate", [run_id])
    if recall(viewer, key, *command) is not None:
        return run
    if run.phase in OVER or not versions.is_behind(run):
        raise WrongState("There is nothing to migrate: the run has ended, or its graph is the loaded one")
    # The author's code runs before the transaction, which then makes sure that nothing has moved since.
    head, carried = versions.carry_head(run, override=override)
    with write(), once(viewer, key, *command) as deed:
        run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        if deed.before is not None:
            return run
        if run.n != (head.n if head else 0) or run.phase in OVER or not versions.is_behind(run):
            raise WrongState("The run moved on meanwhile: look at it again")
        held = versions.is_held(run)
        fence(run)
        phase = run.phase if run.phase == Phase.PAUSED and not held else Phase.READY
        _land(run, head, carried, kind="run.overridden" if override else "run.migrated", by=viewer.name)
        altered = rewind.alterations(run.altered, "overridden" if override else "")
        facts = {"acted_by": viewer.name, "finished": None, "retry": None, "altered": altered}
        Run.objects.filter(pk=run.pk).update(phase=phase, **facts)
        audit.record_run(viewer, command[0], run)
        hint(run.pk)
        tell_inbox(run.workflow)
    run.refresh_from_db()
    return run


def settle_skew(claim: records.Claim) -> bool:
    """Carry a claimed run over to the loaded graph by what is declared; hold it, and say False, if nothing is.

    Only under the claim: ``ClaimLost``.
    """
    run = Run.objects.get(pk=claim.run)
    try:
        head, carried = versions.carry_head(run, override=False)
    except Incompatible as error:
        _hold(claim, error)
        return False
    with write():
        run = _claimed(claim)
        _land(run, head, carried, kind="run.migrated", by="")
        tell_inbox(run.workflow)
    return True


def release_held(*, declared: bool) -> list[str]:
    """Make held runs due again whose own graph is loaded here; return them.

    ``declared``: also those to which hooks or earlier names may lead by now: for a process that has just loaded
    its workflows.
    """
    held = Run.objects.filter(phase=Phase.PAUSED, acted_by="").defer("input", "output", "error").order_by("-created")
    return [run.pk for run in held[:MOST_HELD] if _is_wanted(run, declared) and _release(run)]


def _is_wanted(run: Run, declared: bool) -> bool:
    return versions.has_way(run) if declared else not versions.is_behind(run)


def _release(run: Run) -> bool:
    with write():
        still = Run.objects.filter(pk=run.pk, phase=Phase.PAUSED, epoch=run.epoch, acted_by="")
        if still.update(phase=Phase.READY, error=None) != 1:
            return False
        append_event(run, "run.released", {"version": run.version})
        hint(run.pk)
    return True


def _claimed(claim: records.Claim) -> Run:
    """Return the run, locked, if the claim still stands."""
    run = Run.objects.select_for_update(of=("self",)).filter(pk=claim.run, epoch=claim.epoch).first()
    if run is None or not models.Claim.objects.filter(run=run, token=claim.token).exists():
        raise ClaimLost(run=claim.run)
    return run


def _hold(claim: records.Claim, error: Incompatible) -> None:
    info = ErrorInfo(type=versions.HELD, message=str(error)).model_dump()
    with write():
        run = _claimed(claim)
        entry, skew = catalog.find(run.workflow), versions.find_skew(run.workflow, run.version)
        now = entry.description.version if entry else ""
        error_column = sealed_for(Run, "error", info, run.pk)
        Run.objects.filter(pk=run.pk).update(phase=Phase.PAUSED, error=error_column, acted_by="", wake_at=None)
        models.Claim.objects.filter(run=run).delete()
        words = list(skew.words) if skew else []
        append_event(run, "run.held", {"from": run.version, "to": now, "words": words})


def _land(run: Run, head: records.Checkpoint | None, carried: Carried, *, kind: str, by: str) -> None:
    """Write the new head, what becomes of the questions, and the events; the caller holds the run's lock."""
    entry = _loaded(run)
    version = entry.description.version
    remember_version(entry.description)
    facts = facts_of(carried, run.version, version)
    seq = append_event(run, kind, {"by": by, **facts} if by else facts)
    for event in carried.events:
        seq = append_event(run, event.kind, event.data, step=event.step)
    changes: dict[str, Any] = {"version": version, "error": None, "wake_at": None, "attempts": 0}
    if head is not None:
        fresh = migrated_checkpoint(head, carried, version=version, created=timezone.now())
        insert_row(fresh, run, seq=seq)
        _settle_requests(run, carried)
        changes["n"] = fresh.n
    Run.objects.filter(pk=run.pk).update(**changes)


def _loaded(run: Run) -> Entry:
    entry = catalog.find(run.workflow)
    if entry is None:
        raise Incompatible(f"workflow {run.workflow!r} is not loaded here")
    return entry


def _settle_requests(run: Run, carried: Carried) -> None:
    """Close what is not asked any more; the rest stays open, asked by the step's new name."""
    pending = HumanRequest.objects.filter(run=run, closed__isnull=True)
    gone, now = pending.filter(key__in=carried.closed), timezone.now()
    gone.filter(answered__isnull=False).update(closed=now, closed_as="taken")
    gone.update(closed=now, closed_as="withdrawn")
    for request in carried.requests:
        pending.filter(key=request.key).exclude(step=request.step).update(step=request.step)
