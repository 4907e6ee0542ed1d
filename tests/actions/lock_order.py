"""Whether transactions lock rows in the one order of docs/internals/architecture.md, by what PostgreSQL would lock for
their statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from django.apps import apps
from django.db import connection

from checkpoints.database.storage import DEPTH
from checkpoints.models import AuditHead, Bulk, IdempotencyKey, Rule, Run, Schedule, SignInTries

FIRST, BEFORE_RUNS, RUNS, OTHERS, LAST = range(5)
RANKS = {IdempotencyKey: FIRST, Bulk: BEFORE_RUNS, Schedule: BEFORE_RUNS, Rule: BEFORE_RUNS, Run: RUNS, AuditHead: LAST}
"""Tables with a place of their own; the rest comes between runs and the end of the audit."""
RUN = Run._meta.db_table
COUNTERS = SignInTries._meta.db_table
"""Rate limits: a row belongs to one action of one person, who always locks it at the same place."""
LOCKS = "/* locks rows */"
SELECTED = re.compile(r'FROM "(\w+)"')
INSERTED = re.compile(r'INTO "?(\w+)"? \(([^)]*)\)')
WRITTEN = re.compile(r'\s*(INSERT|UPDATE|DELETE)\b(?: OR IGNORE)?(?: INTO| FROM)? "?(\w+)"?')


@cache
def rank_of(table: str) -> int:
    """Return the place of a table's rows in the order."""
    return next((rank for model, rank in RANKS.items() if model._meta.db_table == table), OTHERS)


@cache
def referring(table: str) -> dict[str, str]:
    """Return column -> the table of runs or of their rows to which it refers: PostgreSQL locks what a new row refers
    to, so that no one deletes it.
    """
    fields = [field for model in apps.get_models() if model._meta.db_table == table for field in model._meta.fields]
    related = {field.column: field.related_model for field in fields if field.is_relation}
    return {column: model._meta.db_table for column, model in related.items() if model is Run or is_of_run(model)}


def is_of_run(model: Any) -> bool:
    return any(field.is_relation and field.related_model is Run for field in model._meta.fields)


def referred_by(sql: str, params: Sequence[Any]) -> Iterator[str]:
    """Yield the tables to which the new rows of an insert refer."""
    table, named = INSERTED.findall(sql)[0]
    columns = [name.strip('" ') for name in named.split(",")]
    for column, other in referring(table).items():
        if any(value is not None for value in params[columns.index(column) :: len(columns)]):
            yield other


def locked_by(sql: str, params: Sequence[Any]) -> Iterator[str]:
    """Yield the tables in which a statement locks rows that others may have."""
    if LOCKS in sql and (selected := SELECTED.search(sql)):
        yield selected[1]
    elif found := WRITTEN.match(sql):
        verb, table = found.groups()
        if verb == "INSERT":
            yield from referred_by(sql, params)
        if verb != "INSERT" or rank_of(table) in {FIRST, RUNS}:
            yield table


class LockOrder:
    """An execute wrapper: collects what each transaction of an action locks, and ``broken``, where the order was."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self._locked: dict[str, str] = {}

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if getattr(context["connection"], DEPTH, 0):
            for table in locked_by(sql, params):
                self._lock(table, sql)
        else:
            self._locked.clear()
        return execute(sql, params, many, context)

    def _lock(self, table: str, sql: str) -> None:
        if table in self._locked or table == COUNTERS:
            return
        early = [other for name, other in self._locked.items() if rank_of(name) > rank_of(table)]
        self.broken += [f"{table} is locked late:\n  {other[:100]}\n  {sql[:100]}" for other in early[:1]]
        self._locked[table] = sql
        if rank_of(table) == LAST and RUN not in self._locked:
            # Whether what a row refers to is still there is only looked at by the commit, when it has the last lock.
            new = [other for name, other in self._locked.items() if other.startswith("INSERT") and rank_of(name) > RUNS]
            self.broken += [f"the run of a new row is not locked:\n  {other[:100]}" for other in new]


@contextmanager
def watched_locks() -> Iterator[LockOrder]:
    """Watch the locks of this connection. SQLite's statements say which rows they would lock: it has none."""
    order = LockOrder()
    has = dict.fromkeys(("has_select_for_update", "has_select_for_update_of", "has_select_for_no_key_update"), True)
    has |= {"has_select_for_update_skip_locked": True}

    with (
        patch.multiple(connection.features, **has),
        patch.object(connection.ops, "for_update_sql", lambda **options: LOCKS),
        connection.execute_wrapper(order),
    ):
        yield order
