"""Runs, requests and checkpoints by their id, its beginning or its end (one query): candidates, seen or not.

Beginnings are read from the primary keys. Lists show the last eight characters of a run's id, so the index of words
has them; the ends of other ids are looked for among the newest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checkpoints.database.alias import connection
from checkpoints.limits import findable
from checkpoints.models import Checkpoint, HumanRequest, Run, RunFact
from wfdash.domain.search_attributes import TITLE
from wfdash.queries.palette.intent import is_beginning, is_end, is_whole
from wfdash.queries.runs.filtering.expressions import prefix_end

MOST = 50
"""Candidates of each kind: those that the person may see are found among them."""
NEWEST = 1_000
"""Requests and checkpoints whose ends are looked at."""
SHOWN = 8
"""How many characters of a run's id lists show."""
TABLES = {"run": Run._meta.db_table, "request": HumanRequest._meta.db_table, "checkpoint": Checkpoint._meta.db_table}
EXACT = "SELECT '{kind}' AS kind, id FROM {table} WHERE id = %s"
BEGINS = "SELECT '{kind}', id FROM (SELECT id FROM {table} WHERE id {least} %s AND id {below} %s ORDER BY {newest} LIMIT {most}) AS {kind}_begins"  # noqa: E501
ENDS = (
    "SELECT '{kind}', id FROM (SELECT id FROM {table} ORDER BY id DESC LIMIT {reach}) AS {kind}_ends WHERE id LIKE %s"
)
TAILS = "SELECT 'run', run_id FROM (SELECT run_id FROM {table} WHERE name = %s AND text {least} %s AND text {below} %s LIMIT {most}) AS tails"  # noqa: E501


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Ids of each kind, newest first where they are many."""

    run: list[str] = field(default_factory=list)
    request: list[str] = field(default_factory=list)
    checkpoint: list[str] = field(default_factory=list)


def candidates(wanted: str) -> Candidates:
    """Return what has this id, or one that begins or ends so (one query); nothing for an empty text."""
    parts = _parts(wanted) if wanted else []
    found = Candidates()
    if not parts:
        return found
    with connection().cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(sql for sql, _ in parts), [findable(one) for _, given in parts for one in given]
        )
        for kind, id_ in cursor.fetchall():
            ids: list[str] = getattr(found, kind)
            if id_ not in ids and _matches(id_, wanted):
                ids.append(id_)
    return found


def _parts(wanted: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the statements whose rows together are the candidates, each with its parameters."""
    if is_whole(wanted) or not is_end(wanted):
        # Ids of runs and checkpoints may be any text.
        kinds = TABLES if is_end(wanted) else ("run", "checkpoint")
        return [(_sql(EXACT, kind), (wanted.lower() if is_whole(wanted) else wanted,)) for kind in kinds]
    text, tail = wanted.lower(), wanted.lower()[-SHOWN:]
    parts: list[tuple[str, tuple[str, ...]]] = [
        (_sql(BEGINS, kind), (text, _after(text))) for kind in TABLES if is_beginning(text)
    ]
    parts += [(_sql(ENDS, kind), (f"%{text}",)) for kind in ("request", "checkpoint")]
    return [*parts, (_sql(TAILS, "run", RunFact._meta.db_table), (TITLE, tail, _after(tail)))]


def _sql(template: str, kind: str, table: str = "") -> str:
    postgres = connection().vendor == "postgresql"
    # The operators that compare bytes: an index of its own serves them, whatever the language.
    least, below, newest = ("~>=~", "~<~", "id USING ~>~") if postgres else (">=", "<", "id DESC")
    given: dict[str, Any] = {"least": least, "below": below, "newest": newest, "most": MOST, "reach": NEWEST}
    return template.format(kind=kind, table=table or TABLES[kind], **given)


def _after(prefix: str) -> str:
    return prefix_end(prefix) or prefix


def _matches(id_: str, wanted: str) -> bool:
    """Return whether an id is the text, begins or ends so, or is shown as something that begins so."""
    if not is_end(wanted):
        return id_ == wanted
    text, whole = wanted.lower(), id_.lower()
    return whole.startswith(text) or whole.endswith(text) or whole[-SHOWN:].startswith(text)
