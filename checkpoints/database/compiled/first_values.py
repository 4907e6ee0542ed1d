"""What several queries find first, and the database's time, in one statement: for looks that mostly find nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import QuerySet

from checkpoints.database.alias import alias, connection
from checkpoints.models.expressions import DatabaseNow

Convert = Callable[[Sequence[Any]], list[Any]]


class FirstValues:
    """Queries of one column each, by their names. They are compiled once, so they must not look at the clock."""

    def __init__(self, **queries: QuerySet[Any, Any]) -> None:
        self._queries = queries
        self._statement = lru_cache(maxsize=8)(self._compile)

    def read(self) -> tuple[datetime, Mapping[str, Any]]:
        """Return the database's time, and name -> the value in the first row, of each query that finds one which is
        not null (one statement).
        """
        sql, params, convert = self._statement(connection().vendor, alias())
        with connection().cursor() as cursor:
            cursor.execute(sql, params)
            now, *found = convert(cursor.fetchone())
        return now, {name: value for name, value in zip(self._queries, found, strict=True) if value is not None}

    def _compile(self, vendor: str, using: str) -> tuple[str, Sequence[Any], Convert]:
        compilers = [query.using(using)[:1].query.get_compiler(using) for query in self._queries.values()]
        clock = DatabaseNow()
        base, kinds = compilers[0], [clock]
        (now, params), columns = base.compile(clock), list[str]()
        given = list(params)
        for one in compilers:
            try:
                sql, params = one.as_sql()
            except EmptyResultSet:
                # It can find nothing, whatever is in the tables.
                sql, params = "NULL", ()
            columns.append(f"({sql})")
            given += params
            kinds.append(one.select[0][0] if one.select else clock)
        converters = base.get_converters(kinds)

        def convert(row: Sequence[Any]) -> list[Any]:
            return next(iter(base.apply_converters([list(row)], converters)))

        return f"SELECT {', '.join([now, *columns])}", given, convert
