"""Deletion by people: a run with everything it has, a checkpoint that is not needed.

The audit refers to no row: its entries of a removed run stay, and so do the pages and cards it stores.
"""

from __future__ import annotations

from typing import Any

from checkpoints.database import runs
from checkpoints.database.alias import alias
from checkpoints.database.storage import write
from checkpoints.errors import Conflict
from checkpoints.ids import RunId
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import ENDED
from checkpoints.sql.reads import Removed
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.actions.common import find_checkpoint, find_run, lock_run, notify_inbox
from wfdash.actions.idempotency import idempotent
from wfdash.actions.runs import tags
from wfdash.actions.runs.content import drop_content
from wfdash.errors import WrongState


def delete_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> None:
    """Delete an ended run with its checkpoints, events, requests, answers and comments. Its audit entries stay.

    ``WrongState`` while it has not ended, a worker has it, or it has the tag ``keep``. Content shared with its forks
    stays. Of a run with very many events most rows are left to a worker; no look-up finds it from now on.
    """
    with write(), idempotent(viewer, key, "delete", [run_id]) as call:
        if call.previous_result is not None:
            return
        run = lock_run(find_run(viewer, run_id, right="operate"))
        if run.phase not in ENDED:
            raise WrongState(f"A run that is {run.phase} cannot be deleted: cancel it first")
        if tags.is_kept(run):
            raise WrongState(f"This run is kept by its tag {tags.KEEP}. Remove the tag first")
        entries.record_run(viewer, "delete", run, **_facts(run))
        removed = _remove(run.pk)
        notify_inbox(run.workflow)
        call.record(run=run_id)
    drop_content([removed.relative])


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
    drop_content([RunId(run_id)])


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
        removed = runs.remove_run(alias(), run, in_parts=True)
    except Conflict as error:
        raise WrongState(str(error).split(",")[0].capitalize()) from error
    return removed or Removed(relative=None)


def _refuse_needed(run: Run, chosen: Checkpoint) -> None:
    if chosen.pk in runs.needed_of(run.pk):
        raise WrongState("This is the current checkpoint and cannot be deleted")
    if chosen.label is not None:
        raise WrongState("Labelled checkpoints are kept. Remove the label first")
