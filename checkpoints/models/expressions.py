"""Expressions and indexes that the databases spell differently: the card's headline as a column, an index of lists of
requests that avoids reading the cards, the database's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement
from django.db.models import Func, Index, IntegerField, Model, QuerySet, Subquery, TextField
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.models.fields import MomentField
from checkpoints.sql.statements import POSTGRES, SQLITE

LONGEST = 300
"""Characters of a headline in lists."""
JSON_ROWS = {
    SQLITE.name: "(SELECT json_group_array(json_array(%(columns)s)) FROM (%(subquery)s) AS found)",
    POSTGRES.name: "(SELECT json_agg(json_build_array(%(columns)s))::text FROM (%(subquery)s) AS found)",
}
"""By dialect: the rows of a query as one JSON text."""


class Headline(Func):
    """The ``subject`` of the card in a column, cut to 300 characters; null where there is none to read."""

    output_field = TextField()
    arity = 1

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression."""
        card, params = compiler.compile(self.source_expressions[0])
        text = f"substr(json_extract({card}, '$.subject'), 1, {LONGEST})"
        return f"CASE WHEN json_type({card}, '$.subject') = 'text' THEN {text} END", (*params, *params)

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression; a text with NUL, which PostgreSQL cannot convert to text, gives null."""
        card, params = compiler.compile(self.source_expressions[0])
        text = f"left({card} ->> 'subject', {LONGEST})"
        # strpos, not LIKE: a percent sign would be taken for a parameter.
        return f"CASE WHEN strpos({card}::text, '\\u0000') = 0 THEN {text} END", (*params, *params)


class StoredSize(Func):
    """About how many bytes the values of columns take as they are stored, without reading them."""

    output_field = IntegerField()

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression."""
        return self._sum(compiler, "length")

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression: of what is stored compressed."""
        return self._sum(compiler, "pg_column_size")

    def _sum(self, compiler: SQLCompiler, function: str) -> tuple[str, tuple[Any, ...]]:
        parts = [compiler.compile(one) for one in self.source_expressions]
        text = " + ".join(f"coalesce({function}({sql}), 0)" for sql, _ in parts)
        return f"({text})", tuple(one for _, params in parts for one in params)


class CoveringIndex(Index):
    """An index that on SQLite also contains the ``covered`` columns.

    SQLite stores a row in one piece, so reading a late column reads the card before it; where the index has all the
    columns of a query, the row is not read at all. Other databases store big values elsewhere, and keep their indexes
    small.
    """

    def __init__(self, *, covered: Sequence[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.covered = list(covered)

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        """Return path and arguments for a migration."""
        path, args, options = super().deconstruct()
        return path, args, {**options, "covered": self.covered}

    def create_sql(
        self, model: type[Model], schema_editor: BaseDatabaseSchemaEditor, using: str = "", **options: Any
    ) -> Statement:
        """Return the statement that creates the index."""
        if schema_editor.connection.vendor != "sqlite":
            return super().create_sql(model, schema_editor, using=using, **options)
        wide = Index(fields=[*self.fields, *self.covered], name=self.name, condition=self.condition)
        return wide.create_sql(model, schema_editor, using=using, **options)


class JsonRows(Subquery):
    """The rows of a query, columns of text by these names, as one text: a JSON list of lists; null or empty without
    any.
    """

    output_field = TextField()

    def __init__(self, found: QuerySet[Any, Any], *columns: str) -> None:
        super().__init__(found, columns=", ".join(f'found."{name}"' for name in columns))

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> tuple[str, Any]:
        """Return the expression."""
        return self.as_sql(compiler, connection, JSON_ROWS[SQLITE.name], **extra)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> tuple[str, Any]:
        """Return the expression."""
        return self.as_sql(compiler, connection, JSON_ROWS[POSTGRES.name], **extra)


class DatabaseNow(Func):
    """The database's time at this statement, as the statements of ``checkpoints.sql`` write it."""

    output_field = MomentField()

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression."""
        return SQLITE.now.replace("%", "%%"), ()

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression."""
        return POSTGRES.now, ()
