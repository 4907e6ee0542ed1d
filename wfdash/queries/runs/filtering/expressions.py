"""What a search for runs is made of: conditions, and the indexes that lead to the runs they hold for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Exists, Func, Model, OuterRef, Q
from django.db.models.lookups import GreaterThanOrEqual, In, LessThan
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.database.alias import connection
from checkpoints.models import Run, RunFact

MOST_VALUES = 10
"""Values that begin alike and are looked for one by one."""
LAST = 0x10FFFF
Compiled = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Root:
    """Where a walk begins: at runs, or at facts of runs. ``run`` stands before a run's columns."""

    model: type[Model]
    run: str
    id: str


RUNS = Root(model=Run, run="", id="id")
FACTS = Root(model=RunFact, run="run__", id="run_id")
ToFilter = Callable[[Root], Q]


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order of runs: by a time, later ones first or last. Runs that do not have the time are not in it."""

    column: str = "created"
    latest_first: bool = True

    def column_of(self, root: Root) -> str:
        """Return the column at a root: facts have the time at which their run began themselves."""
        return self.column if self.column == "created" else f"{root.run}{self.column}"


BEGUN = frozenset({"created"})
ENDED_TOO = frozenset({"created", "finished"})


@dataclass(frozen=True, kw_only=True)
class IndexScan:
    """Rows that an index leads to. ``orders``: the times by which they come in order, so that one may stop anywhere."""

    root: Root
    where: Q
    orders: frozenset[str] = BEGUN


@dataclass(frozen=True, kw_only=True)
class AccessPath:
    """Ways that lead together to every run for which a condition holds: to none if there is no way.

    ``exact``: who comes by one of them need not be asked again.
    """

    ways: tuple[IndexScan, ...]
    exact: bool = True


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition, and the routes by which indexes lead to what it holds for; none if they do not."""

    holds: ToFilter
    routes: tuple[AccessPath, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Search:
    """All that must hold, and the time in which the runs began: from ``since`` until before ``until``."""

    parts: tuple[Condition, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


class StartsWith(Func):
    """True when a text begins so, letter by letter, by an index where there is one."""

    output_field = BooleanField()

    def __init__(self, column: str | Func, prefix: str) -> None:
        super().__init__(column)
        self.prefix = prefix

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression: SQLite compares bytes."""
        return self._between(compiler, ">=", "<")

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression with the operators that compare bytes, whatever the language."""
        return self._between(compiler, "~>=~", "~<~")

    def _between(self, compiler: SQLCompiler, least: str, below: str) -> Compiled:
        column, params = compiler.compile(self.source_expressions[0])
        end = prefix_end(self.prefix)
        if end is None:
            return f"({column} {least} %s)", (*params, self.prefix)
        return f"({column} {least} %s AND {column} {below} %s)", (*params, self.prefix, *params, end)


class NoIndex(Func):
    """A column that is compared row by row: an index for it would be read from end to end, once for every row."""

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the column with the sign that keeps indexes out."""
        sql, params = compiler.compile(self.source_expressions[0])
        return f"+{sql}", tuple(params)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the column with nothing added to it, which no index knows."""
        sql, params = compiler.compile(self.source_expressions[0])
        kind = self.output_field.get_internal_type()
        nothing = {"CharField": "|| ''", "DateTimeField": "+ interval '0'"}.get(kind, "+ 0")
        return f"({sql} {nothing})", tuple(params)


class RowExists(Exists):
    """An ``EXISTS`` that is asked of each row on the way: PostgreSQL may not make a join of it, and begin elsewhere."""

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression; a subquery with an offset stays one."""
        sql, params = self.as_sql(compiler, connection, **extra)
        return f"{sql.removesuffix(')')} OFFSET 0)", tuple(params)


def prefix_end(prefix: str) -> str | None:
    """Return the first text after all that begin so; None if there is none, because the prefix is empty."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < LAST:
            return prefix[:at] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def has(root: Root, facts: Q, *, equal: bool = False) -> Q:
    """Return the condition that a run has such a fact. ``equal``: one with this text, or number, or one of a few."""
    rows = RunFact.objects.filter(facts, run_id=OuterRef(root.id))
    # A fact is as old as its run: with that the index by text leads to the very row.
    return Q(RowExists(rows.filter(created=OuterRef("created")) if equal else rows))


def on_run(root: Root, column: str, compare: Any, value: Any) -> Q:
    """Return a condition on a run's column that is asked row by row, whatever index there is for it."""
    return Q(compare(NoIndex(f"{root.run}{column}"), value))


def in_values(root: Root, column: str, values: Iterable[Any]) -> Q:
    """Return the condition that a run's column has one of these values."""
    return on_run(root, column, In, list(values))


def within(column: Any, span: tuple[datetime | None, datetime | None]) -> Q:
    """Return the condition that a moment lies in a span: from its start until before its end."""
    since, until = span
    least = Q(GreaterThanOrEqual(column, since)) if since else Q()
    return least & (Q(LessThan(column, until)) if until else Q())


def texts_beginning(name: str, prefix: str, most: int = MOST_VALUES) -> tuple[str, ...] | None:
    """Return the texts of facts of that name that begin so (one query), None if they are more than ``most``."""
    end, postgres = prefix_end(prefix), connection().vendor == "postgresql"
    least, beyond, below = ("~>=~", "~>~", "~<~") if postgres else (">=", ">", "<")
    order = f"text USING {below}" if postgres else "text"
    until, last = (f" AND text {below} %s", (end,)) if end is not None else ("", ())
    found = f"WHERE name = %s AND text {least} %s{until} ORDER BY {order} LIMIT 1"
    first = f"SELECT text FROM checkpoints_runfact {found}"  # noqa: S608
    after = first.replace(f"text {least} %s", f"text {beyond} found.text")
    return _skip(first, (name, prefix, *last), after, (name, *last), most)


def values_of(column: str, most: int) -> tuple[str, ...] | None:
    """Return what occurs in an indexed column of runs (one query), None if that is more than ``most``."""
    first = f"SELECT {column} FROM checkpoints_run ORDER BY {column} LIMIT 1"  # noqa: S608
    after = f"SELECT {column} FROM checkpoints_run WHERE {column} > found.text ORDER BY {column} LIMIT 1"  # noqa: S608
    return _skip(first, (), after, (), most)


def _skip(first: str, given: tuple[Any, ...], after: str, then: tuple[Any, ...], most: int) -> tuple[str, ...] | None:
    """Go through an index from value to value, however many rows each has."""
    sql = f"""
        WITH RECURSIVE found(text) AS (
            SELECT ({first}) UNION ALL SELECT ({after}) FROM found WHERE found.text IS NOT NULL
        ) SELECT text FROM found WHERE text IS NOT NULL LIMIT {int(most) + 1}"""  # noqa: S608
    with connection().cursor() as cursor:
        cursor.execute(sql, (*given, *then))
        texts = tuple(row[0] for row in cursor.fetchall())
    return texts if len(texts) <= most else None
