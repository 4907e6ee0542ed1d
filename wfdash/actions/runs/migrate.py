"""Runs whose workflow has changed: migrate, override; and what workers do automatically: migrate or hold.

A refusal leaves the run unchanged. Answers are rows and stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from django.db.models import QuerySet
from django.utils import timezone

from checkpoints import models, records
from checkpoints.database.runs import insert_row, made_ready
from checkpoints.database.storage import write
from checkpoints.errors import Incompatible
from checkpoints.events import EventKind
from checkpoints.models import HumanRequest, Run
from checkpoints.models.fields import encrypted_for
from checkpoints.records import ErrorInfo, Phase
from checkpoints.rules import Priority
from wfdash.access.viewer import Viewer
from wfdash.actions import audit
from wfdash.actions.common import append_event, fence, find_run, notify_inbox, notify_workers
from wfdash.actions.pacing import SweepBackoff, idempotent, previous_result
from wfdash.actions.runs.lifecycle import claimed_run, remember_version
from wfdash.actions.runs.search_index import announce_held
from wfdash.contract import Carried
from wfdash.domain.errors import WrongState
from wfdash.domain.graph_diff import facts_of, migrated_checkpoint
from wfdash.engines import catalog
from wfdash.engines.catalog import Entry
from wfdash.queries import timemachine

Holds: TypeAlias = Callable[[str, str], bool]
"""Whether a run of this workflow and version is to be held, if nothing leads to the loaded graph."""

OVER = [Phase.COMPLETED, Phase.CANCELLED]
HELD = Run.objects.filter(phase=Phase.PAUSED, acted_by="")
_backoff = SweepBackoff("Could not check whether run %s can be resumed")
HELD_RUNS_AT_ONCE = 500
"""Held runs that are looked at in one go."""


def migrate_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Migrate a run to the loaded graph as its author declared, resume it, and return it.

    ``Incompatible`` says why that is not possible; ``WrongState`` if there is nothing to migrate.
    """
    return _carry_over(viewer, run_id, override=False, key=key)


def override_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> Run:
    """Resume a run under the loaded graph without a declared migration, if its position and values are valid there."""
    return _carry_over(viewer, run_id, override=True, key=key)


def _carry_over(viewer: Viewer, run_id: str, *, override: bool, key: str | None) -> Run:
    run = find_run(viewer, run_id, right="operate")
    command = ("override graph" if override else "migrate", [run_id])
    if previous_result(viewer, key, *command) is not None:
        return run
    if run.phase in OVER or not timemachine.is_behind(run):
        raise WrongState("Nothing to migrate: the run has ended or is already on the current version")
    # The author's code runs before the transaction, which then checks that nothing has changed since.
    head, carried = timemachine.carry_head(run, override=override)
    with write(), idempotent(viewer, key, *command) as call:
        run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
        if call.previous_result is not None:
            return run
        if run.n != (head.n if head else 0) or run.phase in OVER or not timemachine.is_behind(run):
            raise WrongState("The run changed in the meantime. Review it again")
        held = timemachine.is_held(run)
        fence(run)
        stays = run.phase == Phase.PAUSED and not held
        _apply_migration(
            run, head, carried, kind=EventKind.RUN_OVERRIDDEN if override else EventKind.RUN_MIGRATED, by=viewer.name
        )
        altered = timemachine.alterations(run.altered, "overridden" if override else "")
        facts = {"acted_by": viewer.name, "finished": None, "retry": None, "altered": altered}
        Run.objects.filter(pk=run.pk).update(**facts, **({} if stays else made_ready(Priority.STARTED)))
        audit.record_run(viewer, command[0], run)
        notify_workers(run.pk)
        notify_inbox(run.workflow)
    run.refresh_from_db()
    return run


def migrate_or_hold(claim: records.Claim, holds: Holds) -> bool:
    """Migrate a claimed run to the loaded graph as declared and return True; otherwise hold it and return False.

    Where it is not to be held it is left as it is: another worker may have its version soon. Only under the claim:
    ``ClaimLost``.
    """
    run = Run.objects.get(pk=claim.run)
    try:
        head, carried = timemachine.carry_head(run, override=False)
    except Incompatible as error:
        if holds(run.workflow, run.version):
            _hold(claim, error)
        return False
    with write():
        run = claimed_run(claim)
        _apply_migration(run, head, carried, kind=EventKind.RUN_MIGRATED, by="")
        notify_inbox(run.workflow)
    return True


def release_held() -> list[str]:
    """Make at most ``HELD_RUNS_AT_ONCE`` held runs due again whose own graph is loaded here, and return their ids."""
    held = _held()
    graphs = sorted(set(held.values_list("workflow", "version")))
    loaded = (
        held.filter(workflow=name, version=version) for name, version in graphs if timemachine.is_loaded(name, version)
    )
    found = [run_id for rows in loaded for run_id in rows.values_list("pk", flat=True)[:HELD_RUNS_AT_ONCE]]
    return _release_each(found[:HELD_RUNS_AT_ONCE], lambda run: not timemachine.is_behind(run))


def release_declared(after: str = "") -> tuple[list[str], str]:
    """Make held runs due again that hooks or earlier names may migrate by now: for a process that has just loaded its
    workflows.

    Looks at ``HELD_RUNS_AT_ONCE`` runs from an id on; returns those released, and where to look on, empty at the end.
    """
    found = list(_held().filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:HELD_RUNS_AT_ONCE])
    return _release_each(found, timemachine.has_way), found[-1] if len(found) == HELD_RUNS_AT_ONCE else ""


def _held() -> QuerySet[Run]:
    return HELD.exclude(pk__in=_backoff.backed_off()).order_by()


def _release_each(runs: list[str], is_ready: Callable[[Run], bool]) -> list[str]:
    def release(run_id: str) -> bool:
        run = Run.objects.defer("input", "output", "error").get(pk=run_id)
        return is_ready(run) and _release(run)

    return [run_id for run_id in runs if _backoff.run_each([run_id], release)]


def _release(run: Run) -> bool:
    with write():
        still = Run.objects.filter(pk=run.pk, phase=Phase.PAUSED, epoch=run.epoch, acted_by="")
        if still.update(error=None, **made_ready(Priority.TIMED)) != 1:
            return False
        append_event(run, EventKind.RUN_RELEASED.draft(version=run.version))
        notify_workers(run.pk)
    return True


def _hold(claim: records.Claim, error: Incompatible) -> None:
    info = ErrorInfo(type=timemachine.HELD, message=str(error)).model_dump()
    with write():
        run = claimed_run(claim)
        entry, difference = catalog.find(run.workflow), timemachine.diff_since(run.workflow, run.version)
        now = entry.description.version if entry else ""
        error_column = encrypted_for(Run, "error", info, run.pk)
        Run.objects.filter(pk=run.pk).update(phase=Phase.PAUSED, error=error_column, acted_by="", wake_at=None)
        models.Claim.objects.filter(run=run).delete()
        words = list(difference.words) if difference else []
        append_event(run, EventKind.RUN_HELD.draft(**{"from": run.version, "to": now, "words": words}))
        announce_held(run)


def _apply_migration(run: Run, head: records.Checkpoint | None, carried: Carried, *, kind: EventKind, by: str) -> None:
    """Write the new head, what becomes of the requests, and the events; the caller holds the run's lock."""
    entry = _loaded(run)
    version = entry.description.version
    remember_version(entry.description)
    facts = facts_of(carried, run.version, version)
    seq = append_event(run, kind.draft(**({"by": by, **facts} if by else facts)))
    for event in carried.events:
        seq = append_event(run, event)
    changes: dict[str, Any] = {"version": version, "error": None, "wake_at": None, "attempts": 0}
    if head is not None:
        fresh = migrated_checkpoint(head, carried, version=version, created=timezone.now())
        insert_row(fresh, run, seq=seq)
        # Close requests that are no longer asked; the others stay open, asked by the step's new name.
        pending = HumanRequest.objects.filter(run=run, closed__isnull=True)
        gone, now = pending.filter(key__in=carried.closed), timezone.now()
        gone.filter(answered__isnull=False).update(closed=now, closed_as="taken")
        gone.update(closed=now, closed_as="withdrawn")
        for request in carried.requests:
            pending.filter(key=request.key).exclude(step=request.step).update(step=request.step)
        changes["n"] = fresh.n
    Run.objects.filter(pk=run.pk).update(**changes)


def _loaded(run: Run) -> Entry:
    entry = catalog.find(run.workflow)
    if entry is None:
        raise Incompatible(f"workflow {run.workflow!r} is not loaded")
    return entry
