"""SQL that is built once: the ORM takes longer to build a small query than a database to answer it."""

from __future__ import annotations

from checkpoints.database.compiled.rows import Placeholder, RowStatement, compiled_rows
from checkpoints.database.compiled.values import Statement, compiled, compiled_condition, compiled_filter, statement_of
from checkpoints.database.compiled.writes import Update, UpdateStatement, compiled_update, insert, insert_if_free

__all__ = [
    "Placeholder",
    "RowStatement",
    "Statement",
    "Update",
    "UpdateStatement",
    "compiled",
    "compiled_condition",
    "compiled_filter",
    "compiled_rows",
    "compiled_update",
    "insert",
    "insert_if_free",
    "statement_of",
]
