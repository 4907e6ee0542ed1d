"""Database expressions over JSON lists of names, on SQLite and PostgreSQL.

Of thousands of lists hardly any needs to be parsed: a search in the text says which of them hold a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func
from django.db.models.sql.compiler import SQLCompiler

PLAIN = re.compile(r"[ !#-\[\]-~]+")
"""Characters that every JSON writer leaves unescaped."""
Params = tuple[Any, ...]
Compiled = tuple[str, Params]


class _Named(Func):
    """A condition on the JSON list in ``column`` and some names."""

    output_field = BooleanField()

    def __init__(self, column: str, names: Iterable[str]) -> None:
        super().__init__(column)
        self.names = sorted(set(names))


class NamesAny(_Named):
    """True when the JSON list in ``column`` holds at least one of ``names``. SQLite and PostgreSQL."""

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression."""
        column, params = compiler.compile(self.source_expressions[0])
        marks = ", ".join(["%s"] * len(self.names)) or "NULL"
        exact = f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value IN ({marks}))"  # noqa: S608
        return self._tested("instr", column, tuple(params), exact, (*params, *self.names))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression; the column is json, the operator jsonb's."""
        column, params = compiler.compile(self.source_expressions[0])
        exact = f"({column})::jsonb ?| %s::text[]"
        return self._tested("strpos", f"({column})::text", tuple(params), exact, (*params, self.names))

    def _tested(self, find: str, text: str, params: Params, exact: str, exact_params: Params) -> Compiled:
        """Search for the names as they stand in the text. Where it has a backslash, quotes may lie: there, be exact."""
        hits = " OR ".join([f"{find}({text}, %s) > 0"] * len(self.names)) or "1 = 0"
        found = tuple(value for name in self.names for value in (*params, json.dumps(name, ensure_ascii=False)))
        plain = f"{find}({text}, %s) = 0"
        if all(PLAIN.fullmatch(name) for name in self.names):
            # These stand there as they are, or not at all: most texts are searched once.
            sql = f"(CASE WHEN NOT ({hits}) THEN false WHEN {plain} THEN true ELSE {exact} END)"
            return sql, (*found, *params, "\\", *exact_params)
        return f"(CASE WHEN {plain} THEN ({hits}) ELSE {exact} END)", (*params, "\\", *found, *exact_params)


class NamesEmpty(Func):
    """True when the JSON list in ``column`` is empty. SQLite and PostgreSQL."""

    output_field = BooleanField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Compare the text."""
        column, params = compiler.compile(self.source_expressions[0])
        return f"({column} = '[]')", tuple(params)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Compare the text."""
        column, params = compiler.compile(self.source_expressions[0])
        return f"(({column})::text = '[]')", tuple(params)


class NamesBeyond(_Named):
    """True when the JSON list in ``column`` holds a name that is none of ``names``. SQLite and PostgreSQL."""

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression."""
        column, params = compiler.compile(self.source_expressions[0])
        marks = ", ".join(["%s"] * len(self.names))
        sql = f"EXISTS (SELECT 1 FROM json_each({column}) WHERE json_each.value NOT IN ({marks}))"  # noqa: S608
        return sql, (*params, *self.names)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any) -> Compiled:
        """Return the expression; the column is json."""
        column, params = compiler.compile(self.source_expressions[0])
        rows = f"json_array_elements_text({column}) AS named(name)"
        return f"EXISTS (SELECT 1 FROM {rows} WHERE name <> ALL(%s::text[]))", (*params, self.names)  # noqa: S608
