"""Counts of runs by slot: of the very runs that a list finds, along indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Statement
from checkpoints.models import Run
from checkpoints.records import ENDED, Phase
from wfdash.access.viewer import EVERY, Viewer
from wfdash.records.statistics import TimeSlot

TABLE = Run._meta.db_table
EACH = (
    f"WITH s(n, since, until) AS (VALUES {{slots}}), p(phase) AS (VALUES {{phases}})"  # noqa: S608
    f" SELECT n, phase, (SELECT COUNT(*) FROM {TABLE} r WHERE r.phase = p.phase AND r.finished IS NOT NULL"
    f" AND r.finished >= s.since AND r.finished < s.until{{among}}) FROM s CROSS JOIN p"
)
"""A count of its own for each slot and phase: each is one stretch of an index, which groups would have to be sorted."""
STARTED = (
    f"WITH s(n, since, until) AS (VALUES {{slots}}) SELECT n, (SELECT COUNT(*) FROM {TABLE} r"  # noqa: S608
    f" WHERE r.created >= s.since AND r.created < s.until{{among}}) FROM s"
)
BY_WORKFLOW = (
    f"SELECT r.workflow, COUNT(*) FROM {TABLE} r WHERE r.phase = %s AND r.finished IS NOT NULL"  # noqa: S608
    f" AND r.finished >= %s AND r.finished < %s{{among}} GROUP BY r.workflow"
)

IN_PHASE = f"SELECT phase, '', (SELECT COUNT(*) FROM {TABLE} r WHERE r.phase = p.phase) FROM p"  # noqa: S608


def counted_with(others: Statement, phases: Iterable[str]) -> Statement:
    """Return a query of each of these phases, an empty text and how many runs are in it, what is left of removed ones
    included; and of the rows of others with such columns.
    """
    names = ", ".join(f"('{phase}')" for phase in phases)
    sql = f"WITH p(phase) AS (VALUES {names}) {IN_PHASE}"
    return Statement(sql=f"{sql} UNION ALL {others.sql}" if others.sql else sql, params=others.params)


def count_started(viewer: Viewer, workflow: str, slots: Sequence[TimeSlot]) -> tuple[int, ...]:
    """Return how many runs were created in each slot (one query)."""
    among, names = _among(_names(viewer, workflow))
    counts = dict(_rows(STARTED.format(slots=_values(slots), among=among), [*_edges(slots), *names]))
    return tuple(counts.get(place, 0) for place in range(len(slots)))


def count_ended(viewer: Viewer, workflow: str, slots: Sequence[TimeSlot]) -> dict[Phase, tuple[int, ...]]:
    """Return how many runs ended in each slot, by how (one query). A run that was retried is no longer one of them."""
    among, names = _among(_names(viewer, workflow))
    phases = ", ".join(f"('{phase.value}')" for phase in sorted(ENDED))
    rows = _rows(EACH.format(slots=_values(slots), phases=phases, among=among), [*_edges(slots), *names])
    counts = {(place, phase): count for place, phase, count in rows}
    return {phase: tuple(counts[place, phase.value] for place in range(len(slots))) for phase in ENDED}


def count_by_workflow(
    viewer: Viewer, workflow: str, phase: Phase, slots: Sequence[TimeSlot], only: Iterable[str] | None = None
) -> dict[str, int]:
    """Return workflow -> how many of its runs ended so in these slots (one query). ``only``: of these workflows."""
    visible = _names(viewer, workflow)
    wanted = visible if only is None else [name for name in only if visible is None or name in visible]
    among, names = _among(wanted)
    since, until = (_stored(at) for at in (slots[0].since, slots[-1].until))
    return dict(_rows(BY_WORKFLOW.format(among=among), [phase.value, since, until, *names]))


def _rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection().cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def _values(slots: Sequence[TimeSlot]) -> str:
    return ", ".join(f"({place}, %s, %s)" for place in range(len(slots)))


def _edges(slots: Sequence[TimeSlot]) -> list[Any]:
    return [_stored(at) for slot in slots for at in (slot.since, slot.until)]


def _stored(at: datetime) -> Any:
    return Run._meta.get_field("created").get_db_prep_value(at, connection())


def _among(names: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    """Return the condition of runs of these workflows, and its parameters; None: of all."""
    if names is None:
        return "", ()
    return f" AND r.workflow IN ({', '.join(['%s'] * len(names)) or 'NULL'})", names


def _names(viewer: Viewer, workflow: str) -> list[str] | None:
    """Return the workflows to count, None for all."""
    if workflow:
        return [workflow]
    if "see" in viewer.rights.get(EVERY, frozenset()):
        return None
    return sorted(name for name, rights in viewer.rights.items() if "see" in rights)
