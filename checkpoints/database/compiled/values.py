"""Queries of plain values compiled once, and counts of what they find."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any

from django.core.exceptions import EmptyResultSet, FullResultSet
from django.db.models import BooleanField, Model, Q, QuerySet
from django.db.models.expressions import RawSQL

from checkpoints.database.alias import alias, connection

KEPT = 512
"""How many statements are kept for each query; the least recently used go first."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A query as SQL with its parameters. ``sql`` is empty where the query can find nothing."""

    sql: str
    params: tuple[Any, ...] = ()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return what the query finds now, as it is stored: select texts and numbers, no times and no JSON."""
        if not self.sql:
            return []
        with connection().cursor() as cursor:
            cursor.execute(self.sql, self.params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def count(self) -> int:
        """Return how many rows the query finds now."""
        found = self.select("COUNT(*)")
        return int(found[0]) if found else 0

    def select(self, columns: str) -> tuple[Any, ...] | None:
        """Return one row of aggregates over what the query finds, which is named ``found``; None if it finds nothing
        ever.
        """
        outer = Statement(sql=self.sql and f"SELECT {columns} FROM ({self.sql}) AS found", params=self.params)  # noqa: S608
        return next(iter(outer.rows()), None)


def compiled(build: Callable[..., QuerySet[Any, Any]]) -> Callable[..., Statement]:
    """Decorate a function that returns a query so that it returns the query's statement, kept per arguments.

    The arguments are hashable and alone decide the query: ``build`` neither reads the database nor looks at the clock.
    """

    @lru_cache(maxsize=KEPT)
    def kept(vendor: str, *key: Hashable) -> Statement:
        return statement_of(build(*key))

    return wraps(build)(lambda *key: kept(connection().vendor, *key))


def compiled_filter(model: type[Model], build: Callable[..., Q]) -> Callable[..., Q]:
    """Return a function that returns ``build``'s filter of a table as SQL, kept per arguments as by ``compiled``.

    For queries of that table itself: within another query its columns have other names. A filter that needs other
    tables joined is returned as it is.
    """

    @lru_cache(maxsize=KEPT)
    def kept(vendor: str, *key: Hashable) -> Q:
        plain = build(*key)
        query = model._default_manager.filter(plain).query
        try:
            sql, params = query.get_compiler(alias()).compile(query.where)
        except EmptyResultSet:
            return Q(pk__in=[])
        return plain if len(query.alias_map) > 1 else Q(RawSQL(sql, tuple(params), BooleanField()))  # noqa: S611

    return wraps(build)(lambda *key: kept(connection().vendor, *key))


def compiled_condition(model: type[Model]) -> Callable[[Callable[..., Q]], Callable[..., Statement]]:
    """Decorate a function that returns a filter of a table so that it returns the filter as SQL, kept per arguments as
    by ``compiled``: for statements in which something by the table's name has the columns that it asks.
    """

    def decorate(build: Callable[..., Q]) -> Callable[..., Statement]:
        @lru_cache(maxsize=KEPT)
        def kept(vendor: str, *key: Hashable) -> Statement:
            query = model._default_manager.filter(build(*key)).query
            try:
                sql, params = query.get_compiler(alias()).compile(query.where)
            except EmptyResultSet:
                return Statement(sql="1 = 0")
            except FullResultSet:
                return Statement(sql="1 = 1")
            return Statement(sql=sql, params=tuple(params))

        return wraps(build)(lambda *key: kept(connection().vendor, *key))

    return decorate


def statement_of(query: QuerySet[Any, Any]) -> Statement:
    """Return a query's statement."""
    try:
        sql, params = query.query.get_compiler(alias()).as_sql()
    except EmptyResultSet:
        return Statement(sql="")
    return Statement(sql=sql, params=tuple(params))
