"""Deletion: a run with everything it has, a checkpoint that is not needed, ended runs that are old.

The audit refers to no row: its entries of a removed run stay, and so do the pages and cards it stores.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.utils import timezone

from checkpoints.database import runs
from checkpoints.database.alias import alias, connection
from checkpoints.database.storage import DatabaseStorage, write
from checkpoints.errors import Conflict
from checkpoints.ids import RunId
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import ENDED
from checkpoints.sql.runs import Removed
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.actions.common import find_checkpoint, find_run, lock_run, notify_inbox
from wfdash.actions.idempotency import idempotent
from wfdash.errors import WrongState

BATCH = 100
"""Old runs removed in one transaction."""


def delete_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> None:
    """Delete an ended run with its checkpoints, events, requests, answers and comments. Its audit entries stay.

    ``WrongState`` while it has not ended or a worker has it. Content shared with its forks stays.
    """
    with write(), idempotent(viewer, key, "delete", [run_id]) as call:
        if call.previous_result is not None:
            return
        run = lock_run(find_run(viewer, run_id, right="operate"))
        if run.phase not in ENDED:
            raise WrongState(f"A run that is {run.phase} cannot be deleted: cancel it first")
        entries.record_run(viewer, "delete", run, **_facts(run))
        removed = _remove(run.pk)
        notify_inbox(run.workflow)
        call.record(run=run_id)
    _drop_content([removed])


def delete_checkpoint(viewer: Viewer, run_id: str, checkpoint_id: str, *, key: str | None = None) -> None:
    """Delete a checkpoint that is not needed; its number is not reused. The audit records who deleted which.

    ``WrongState`` for checkpoints the run would continue from (its newest, and its newest valid one), and for one with
    a label: remove that first.
    """
    with write(), idempotent(viewer, key, "delete-checkpoint", [run_id, checkpoint_id]) as call:
        if call.previous_result is not None:
            return
        run = lock_run(find_run(viewer, run_id, right="operate"))
        chosen = find_checkpoint(run, checkpoint_id)
        _refuse_needed(run, chosen)
        facts: dict[str, Any] = {"checkpoint": chosen.pk, "n": chosen.n, "step": chosen.step or "", "size": chosen.size}
        entries.record_run(viewer, "delete-checkpoint", run, **facts)
        Checkpoint.objects.filter(pk=chosen.pk).delete()
        call.record(checkpoint=checkpoint_id)
    _drop_content([Removed(relative=RunId(run_id))])


def remove_old(days: float, limit: int = BATCH) -> int:
    """Remove runs that ended more than this many days ago, the oldest first. Returns how many, at most ``limit``.

    One transaction and one audit entry for all of them, by no user.
    """
    before = timezone.now() - timedelta(days=days)
    with write():
        old = Run.objects.filter(phase__in=ENDED, finished__lt=before).order_by("finished", "id")
        runs = list(old.values_list("id", flat=True)[:limit])
        removed = {run: found for run in runs if (found := _try(run))}
        if removed:
            facts = {"runs": list(removed), "days": days}
            entries.record(None, "delete-old", facts=facts, right="retention", actor=entries.MACHINE)
    _drop_content(removed.values())
    return len(removed)


def _facts(run: Run) -> dict[str, Any]:
    return {
        "title": run.title,
        "phase": run.phase,
        "checkpoints": Checkpoint.objects.filter(run=run).count(),
        "requests": HumanRequest.objects.filter(run=run).count(),
        "events": run.seq,
    }


def _remove(run: str) -> Removed:
    try:
        removed = runs.remove_run(alias(), run)
    except Conflict as error:
        raise WrongState(str(error).split(",")[0].capitalize()) from error
    return removed or Removed(relative=None)


def _try(run: str) -> Removed | None:
    """Remove a run and return it, or None if someone resumed it in the meantime."""
    try:
        return runs.remove_run(alias(), run)
    except Conflict:
        return None


def _refuse_needed(run: Run, chosen: Checkpoint) -> None:
    if chosen.pk in runs.needed_of(run.pk):
        raise WrongState("This is the current checkpoint and cannot be deleted")
    if chosen.label is not None:
        raise WrongState("Labelled checkpoints are kept. Remove the label first")


def _drop_content(removed: Any) -> None:
    """Remove content that is no longer referenced, outside of the transaction: a prune follows the remaining
    references.

    Within a caller's transaction this is left to the next prune of a related run: the storage could not write until
    then.
    """
    relatives = {one.relative for one in removed if one.relative is not None}
    if relatives and not connection().in_atomic_block:
        async_to_sync(_prune)(sorted(relatives))


async def _prune(runs: list[RunId]) -> None:
    async with DatabaseStorage() as storage:
        for run in runs:
            await storage.prune(run, [])
