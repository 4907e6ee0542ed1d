"""Database expressions over JSON lists of names, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func, IntegerField
from django.db.models.sql.compiler import SQLCompiler


class NamesAny(Func):
    """True when the JSON list in ``column`` holds at least one of ``names``. SQLite and PostgreSQL."""

    output_field = BooleanField()

    def __init__(self, column: str, names: Iterable[str]) -> None:
        super().__init__(column)
        self.names = sorted(names)

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Compare each element."""
        column, params = compiler.compile(self.source_expressions[0])
        marks = ", ".join(["%s"] * len(self.names)) or "NULL"
        sql = f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value IN ({marks}))"  # noqa: S608
        return sql, (*params, *self.names)

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Use jsonb's own operator; the column itself is json."""
        column, params = compiler.compile(self.source_expressions[0])
        return f"(({column})::jsonb ?| %s::text[])", (*params, self.names)


class ListLength(Func):
    """How many elements the JSON list in a column has."""

    function = "json_array_length"
    output_field = IntegerField()
