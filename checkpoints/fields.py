"""A JSON column that keeps a document as it was written: key order, NUL characters and all."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class JsonField(models.JSONField):
    """Like Django's, but ``json`` instead of ``jsonb`` on PostgreSQL.

    ``jsonb`` sorts keys and refuses NUL, yet a form shows its fields in the order of their schema. The price:
    no ``DISTINCT`` and no equality between columns of this type.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """Return the column type."""
        return "json" if connection.vendor == "postgresql" else super().db_type(connection)

    def db_check(self, connection: BaseDatabaseWrapper) -> str | None:
        """Add no check: every writer serialises, and re-parsing each value costs more than writing it."""
        return None

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Read text: psycopg would otherwise parse ``json`` before Django does."""
        if compiler.connection.vendor == "postgresql":
            return f"({sql})::text", params
        return super().select_format(compiler, sql, params)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Hand PostgreSQL the text itself."""
        adapted = super().get_db_prep_value(value, connection, prepared)
        if connection.vendor != "postgresql" or not hasattr(adapted, "obj"):
            return adapted
        from psycopg.types.json import Json

        return Json(adapted.obj, adapted.dumps)
