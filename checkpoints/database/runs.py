"""Deletes the runs of a Django database, and counts their events, through the ORM.

Rows that refer to a run or its requests are deleted with it, in whichever table: the models declare it. The audit
refers to nothing: its entries and the pages it stores stay.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models.functions import Now

from checkpoints import rules
from checkpoints.database.alias import connection
from checkpoints.database.removal import MOST_AT_ONCE, begin_removal, remove_locked
from checkpoints.ids import CheckpointId, RunId
from checkpoints.models import Checkpoint, Claim, Run
from checkpoints.models.expressions import DatabaseNow
from checkpoints.records import Phase
from checkpoints.rules import Priority
from checkpoints.sql.runs import Removed
from checkpoints.sql.statements import POSTGRES, SQLITE, TIMED, Dialect

COUNT_EVENT = "UPDATE checkpoints_run SET seq = seq + 1, updated = %s WHERE id = %s RETURNING seq"


def count_and_wake(dialect: Dialect) -> str:
    """Return the statement that counts an event and makes a run ready that waits for an answer or a time."""
    now = dialect.now.replace("%", "%%")
    woken = {"phase": f"'{Phase.READY.value}'", "priority": int(Priority.RESUMED), "ready_at": now}
    changes = (f", {name} = CASE WHEN phase IN {TIMED} THEN {value} ELSE {name} END" for name, value in woken.items())
    return COUNT_EVENT.replace(" WHERE", f"{''.join(changes)} WHERE")


AS_FOUND = ("seq", "n", "epoch", "phase")
"""What changes of a run with every event, checkpoint, fence and status."""
COUNT_AND_WAKE = {dialect.name: count_and_wake(dialect) for dialect in (SQLITE, POSTGRES)}


def made_ready(priority: Priority) -> dict[str, Any]:
    """Return the changes by which a run is ready from now on, for workers, in the order of its priority."""
    return {"phase": Phase.READY, "for_workers": True, "priority": priority.value, "ready_at": DatabaseNow()}


def count_event(run: str, now: datetime, *, wake: bool) -> int:
    """Count one more event of a run inside the caller's transaction and return its number, in one statement.

    ``wake``: a run that waits for an answer or a time is due. ``Run.DoesNotExist`` if there is no such run.
    """
    number = _count(run, now, {}, wake=wake)
    if number is None:
        raise Run.DoesNotExist
    return number


def count_event_as_found(run: Run, now: datetime, *, wake: bool) -> int | None:
    """Do the same if nothing has happened to the run since this instance was read; None, and nothing is changed, if
    something has.
    """
    return _count(run.pk, now, {name: getattr(run, name) for name in AS_FOUND}, wake=wake)


def _count(run: str, now: datetime, expected: dict[str, Any], *, wake: bool) -> int | None:
    used = connection()
    moment = Run._meta.get_field("updated").get_db_prep_save(now, used)
    statement = COUNT_AND_WAKE[used.vendor] if wake else COUNT_EVENT
    conditions = "".join(f" AND {name} = %s" for name in expected)
    with used.cursor() as cursor:
        cursor.execute(statement.replace(" RETURNING", f"{conditions} RETURNING"), (moment, run, *expected.values()))
        found = cursor.fetchone()
    return None if found is None else int(found[0])


def remove_run(using: str, run: str, *, force: bool = False, in_parts: bool = False) -> Removed | None:
    """Delete a run inside the caller's transaction (``write()``); None if there is none. ``Conflict`` if it has not
    ended.

    Content that its relatives do not need is removed with the next prune of one of them: see ``Removed``. ``in_parts``:
    if it has very many rows, most of them are left to ``removal.remove_part``.
    """
    row = Run.objects.using(using).select_for_update().filter(pk=run).only("id", "phase", "seq", "n").first()
    if row is None:
        return None
    claimed = Claim.objects.using(using).filter(run=run, expires__gt=Now()).exists()
    rules.refuse_removal(RunId(run), Phase(row.phase), claimed=claimed, force=force)
    whole = not in_parts or row.seq + row.n <= MOST_AT_ONCE
    relatives = (remove_locked(using, [run]) if whole else begin_removal(using, run)).relatives
    return Removed(relative=relatives[0] if relatives else None)


def needed_of(run: str) -> list[CheckpointId]:
    """Return the ids of the checkpoints a run would continue from: its head, and its newest valid one."""
    rows = Checkpoint.objects.filter(run_id=run).order_by("-n").values_list("id", flat=True)
    found = [rows.first(), rows.filter(intact=True).first()]
    return [CheckpointId(id_) for id_ in dict.fromkeys(found) if id_ is not None]
