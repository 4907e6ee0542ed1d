"""Deletes runs with the rows that refer to them, in whichever table, by one statement per table.

Which tables these are is read from the models, a project's own included: rows follow by ``on_delete``, as with the
ORM, which would load every request and notice first.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.ids import RunId
from checkpoints.models import Chunk, Run

AMONG = {"sqlite": "IN (SELECT value FROM json_each(%s))", "postgresql": "= ANY(%s)"}
"""A column that has one of many values, which are one parameter."""


@dataclass(frozen=True, kw_only=True)
class RemovedRuns:
    """Deleted runs. ``relatives``: one run of each family that may share content with them.

    ``counts``: how many rows of each table went, by the model's label; of content that others may share none.
    """

    relatives: tuple[RunId, ...]
    counts: Mapping[str, int]


def remove_locked(using: str, runs: Collection[str]) -> RemovedRuns:
    """Delete runs that the caller has locked in its transaction, and found free to go, with everything they have."""
    connection = connections[using]
    among, counts, chosen = AMONG[connection.vendor], dict[str, int](), _parameter(connection, runs)
    with connection.cursor() as cursor:
        for label, sql in _followers(connection.vendor):
            cursor.execute(sql, [chosen])
            counts[label] = counts.get(label, 0) + cursor.rowcount
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


def _parameter(connection: BaseDatabaseWrapper, values: Collection[str]) -> Any:
    return list(values) if connection.vendor == "postgresql" else json.dumps(list(values))


@cache
def _followers(vendor: str) -> tuple[tuple[str, str], ...]:
    """Return the statements for what refers to runs, those first to which nothing else refers, by the model's label."""
    return tuple(_statements(Run, AMONG[vendor]))


def _statements(model: type[models.Model], which: str) -> Iterator[tuple[str, str]]:
    """Yield the statements for rows that refer to rows of a model. ``which``: the end of a condition on their key."""
    for relation in model._meta.get_fields(include_hidden=True):
        if not isinstance(relation, models.ManyToOneRel):
            continue
        follower, column = relation.related_model, relation.field.column
        table, where = _table(follower), f'"{column}" {which}'
        if relation.on_delete is models.SET_NULL:
            yield follower._meta.label, f'UPDATE {table} SET "{column}" = NULL WHERE {where}'  # noqa: S608
        elif relation.on_delete is models.CASCADE:
            key = follower._meta.pk.column
            yield from _statements(follower, f'IN (SELECT "{key}" FROM {table} WHERE {where})')  # noqa: S608
            yield follower._meta.label, f"DELETE FROM {table} WHERE {where}"  # noqa: S608


def _table(model: type[models.Model]) -> str:
    return f'"{model._meta.db_table}"'
