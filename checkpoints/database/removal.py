"""Deletes runs with the rows that refer to them, in whichever table, by one statement per table.

Which tables these are is read from the models, a project's own included: rows follow by ``on_delete``, as with the
ORM, which would load every request and notice first.

A run with very many rows is removed in parts: the first transaction deletes its requests and all else that has rows of
its own, and leaves an empty row of the run, which no look-up finds; the next ones delete its events, checkpoints and
other rows, so many at a time, and at last that row.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.ids import RunId
from checkpoints.models import Chunk, Run
from checkpoints.models.removal import REMOVED

AMONG = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s)"}
"""A column that has one of many values, which are one parameter."""
MOST_AT_ONCE = 5_000
"""Events and checkpoints up to which a run is removed in one transaction."""
FEW = 1_000
"""Rows of a table that go with the first part."""
NULL = ("own_title", "summary", "created_by", "input", "output", "error", "retry", "wake_at", "requesters")
EMPTY: Mapping[str, Any] = {
    **dict.fromkeys((*NULL, "forked_from", "follows", "thread", "start_key")),
    **dict.fromkeys(("title", "acted_by", "ending"), ""),
    **dict.fromkeys(("listed", "noted"), True),
    "workflow": REMOVED,
}
"""What the row of a run holds while its other rows are deleted: nothing that it is found by."""


@dataclass(frozen=True, kw_only=True)
class RemovedRuns:
    """Deleted runs. ``relatives``: one run of each family that may share content with them.

    ``counts``: how many rows of each table went, or will, by the model's label; of content that others may share none.
    ``later``: how many of them are left to ``remove_part``.
    """

    relatives: tuple[RunId, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    later: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows went."""
        return sum(self.counts.values()) - self.later


@dataclass(frozen=True, kw_only=True)
class RemovedPart:
    """So many rows of a run went. ``last``: so did its own; ``relatives``: as of removed runs."""

    rows: int
    last: bool = False
    relatives: tuple[RunId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Follower:
    """A statement for rows that refer to runs, directly or not. ``table``: of rows that refer to a run and to which
    nothing else does, by ``column`` and ``key``: these can go a few at a time.
    """

    label: str
    sql: str
    table: str = ""
    column: str = ""
    key: str = ""


def remove_locked(using: str, runs: Collection[str]) -> RemovedRuns:
    """Delete runs that the caller has locked in its transaction, and found free to go, with everything they have."""
    connection = connections[using]
    among, counts, chosen = AMONG[connection.vendor], dict[str, int](), _parameter(connection, runs)
    with connection.cursor() as cursor:
        for one in _followers(connection.vendor):
            cursor.execute(one.sql, [chosen])
            counts[one.label] = counts.get(one.label, 0) + cursor.rowcount
        cursor.execute(f"DELETE FROM {_table(Run)} WHERE id {among} RETURNING family", [chosen])  # noqa: S608
        families = {family for (family,) in cursor.fetchall()}
        counts[Run._meta.label] = len(runs)
        shared = f"SELECT family, min(id) FROM {_table(Run)} WHERE family {among} GROUP BY family"  # noqa: S608
        cursor.execute(shared, [_parameter(connection, families)])
        relatives: dict[str, str] = dict(cursor.fetchall())
        orphans = _parameter(connection, families - relatives.keys())
        cursor.execute(f"DELETE FROM {_table(Chunk)} WHERE family {among}", [orphans])  # noqa: S608
        counts[Chunk._meta.label] = cursor.rowcount
    return RemovedRuns(relatives=tuple(map(RunId, relatives.values())), counts=counts)


def begin_removal(using: str, run: str) -> RemovedRuns:
    """Remove a run from everyone's sight, and leave most of its rows to ``remove_part``: for a run that the caller has
    locked in its transaction, and found free to go.
    """
    connection = connections[using]
    counts, later, chosen = dict[str, int](), 0, _parameter(connection, [run])
    with connection.cursor() as cursor:
        for one in _followers(connection.vendor):
            count = _count(cursor, one, run) if one.table else 0
            if count > FEW:
                later += count
            else:
                cursor.execute(one.sql, [chosen])
                count = cursor.rowcount
            counts[one.label] = counts.get(one.label, 0) + count
    Run.objects.using(using).filter(pk=run).update(**EMPTY)
    return RemovedRuns(counts=counts, later=later)


def _count(cursor: Any, follower: Follower, run: str) -> int:
    cursor.execute(f'SELECT count(*) FROM {follower.table} WHERE "{follower.column}" = %s', [run])  # noqa: S608
    return int(cursor.fetchone()[0])


def remove_part(using: str, run: str, limit: int) -> RemovedPart:
    """Delete at most so many rows of what is left of a run, whose row the caller has locked in its transaction."""
    connection, left = connections[using], limit
    family = Run.remains.using(using).values_list("family", flat=True).get(pk=run)
    alone = not Run._base_manager.using(using).filter(family=family).exclude(pk=run).exists()
    statements = [(_some(one.table, one.key, one.column), run) for one in _followers(connection.vendor) if one.table]
    if alone:
        statements.append((_some(_table(Chunk), "id", "family"), family))
    with connection.cursor() as cursor:
        for sql, value in statements:
            cursor.execute(sql, [value, left])
            left -= cursor.rowcount
            if left <= 0:
                return RemovedPart(rows=limit)
    removed = remove_locked(using, [run])
    return RemovedPart(rows=limit - left + removed.rows, last=True, relatives=removed.relatives)


def _parameter(connection: BaseDatabaseWrapper, values: Collection[str]) -> Any:
    return list(values) if connection.vendor == "postgresql" else json.dumps(list(values))


@cache
def _followers(vendor: str) -> tuple[Follower, ...]:
    """Return the statements for what refers to runs, those first to which nothing else refers."""
    return tuple(_statements(Run, AMONG[vendor]))


def _statements(model: type[models.Model], which: str) -> Iterator[Follower]:
    """Yield the statements for rows that refer to rows of a model. ``which``: the end of a condition on their key."""
    for relation in model._meta.get_fields(include_hidden=True):
        if not isinstance(relation, models.ManyToOneRel):
            continue
        follower, column = relation.related_model, relation.field.column
        label, table, where = follower._meta.label, _table(follower), f'"{column}" {which}'
        if relation.on_delete is models.SET_NULL:
            yield Follower(label=label, sql=f'UPDATE {table} SET "{column}" = NULL WHERE {where}')  # noqa: S608
        elif relation.on_delete is models.CASCADE:
            key = str(follower._meta.pk.column)
            theirs = tuple(_statements(follower, f'IN (SELECT "{key}" FROM {table} WHERE {where})'))  # noqa: S608
            yield from theirs
            apart = {"table": table, "column": column, "key": key} if model is Run and not theirs else {}
            yield Follower(label=label, sql=f"DELETE FROM {table} WHERE {where}", **apart)  # noqa: S608


def _some(table: str, key: str, column: str) -> str:
    chosen = f'SELECT "{key}" FROM {table} WHERE "{column}" = %s LIMIT %s'  # noqa: S608
    return f'DELETE FROM {table} WHERE "{key}" IN ({chosen})'  # noqa: S608


def _table(model: type[models.Model]) -> str:
    return f'"{model._meta.db_table}"'
