"""Counts of runs by slot: of the very runs that a list finds, along indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from checkpoints.database.alias import connection
from checkpoints.models import Run
from checkpoints.records import ENDED
from wfdash.access.viewer import EVERY, Viewer
from wfdash.queries.statistics.slots import Slot

TABLE = Run._meta.db_table
Ended = Counter[tuple[int, str, str]]
"""Slot, workflow, phase -> how many runs."""


def count_started(viewer: Viewer, workflow: str, slots: Sequence[Slot]) -> tuple[int, ...]:
    """Return how many runs were created in each slot (one query)."""
    counts = dict(_rows(viewer, workflow, slots, "s.n, COUNT(*)", "created", "", "s.n"))
    return tuple(counts.get(place, 0) for place in range(len(slots)))


def count_ended(viewer: Viewer, workflow: str, slots: Sequence[Slot]) -> Ended:
    """Return how many runs ended in each slot, and how (one query). A run that was retried is no longer one of them."""
    phases = ", ".join(f"'{phase.value}'" for phase in sorted(ENDED))
    ended = f" AND r.finished IS NOT NULL AND r.phase IN ({phases})"
    columns = "s.n, r.workflow, r.phase"
    rows = _rows(viewer, workflow, slots, f"{columns}, COUNT(*)", "finished", ended, columns)
    return Counter({(place, name, phase): count for place, name, phase, count in rows})


def _rows(
    viewer: Viewer, workflow: str, slots: Sequence[Slot], wanted: str, column: str, also: str, groups: str
) -> list[tuple[Any, ...]]:
    """Return rows of runs beside the slot they lie in: slots come first, so that each is one stretch of an index."""
    adapt = Run._meta.get_field("created").get_db_prep_value
    edges = [adapt(at, connection()) for slot in slots for at in (slot.since, slot.until)]
    values = ", ".join(f"({place}, %s, %s)" for place in range(len(slots)))
    names = _names(viewer, workflow)
    among = "" if names is None else f" AND r.workflow IN ({', '.join(['%s'] * len(names)) or 'NULL'})"
    sql = (
        f"WITH s(n, since, until) AS (VALUES {values}) SELECT {wanted} FROM s CROSS JOIN {TABLE} r"  # noqa: S608
        f" WHERE r.{column} >= s.since AND r.{column} < s.until{also}{among} GROUP BY {groups}"
    )
    with connection().cursor() as cursor:
        cursor.execute(sql, [*edges, *(names or ())])
        return list(cursor.fetchall())


def _names(viewer: Viewer, workflow: str) -> list[str] | None:
    """Return the workflows to count, None for all."""
    if workflow:
        return [workflow]
    if "see" in viewer.rights.get(EVERY, frozenset()):
        return None
    return sorted(name for name, rights in viewer.rights.items() if "see" in rights)
