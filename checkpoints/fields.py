"""A JSON column that keeps a document as it was written: key order, NUL characters and all."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.fields.json import KeyTransform


class Key(KeyTransform):
    """A key within a document: PostgreSQL compares it as ``jsonb``, because ``json`` knows no equality."""

    def preprocess_lhs(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any, Any]:
        """Cast the column."""
        sql, params, keys = super().preprocess_lhs(compiler, connection)
        return (f"({sql})::jsonb" if connection.vendor == "postgresql" else sql), params, keys


class JsonField(models.JSONField):
    """Like Django's, but ``json`` instead of ``jsonb`` on PostgreSQL.

    ``jsonb`` sorts keys and refuses NUL, yet a form shows its fields in the order of their schema. The price:
    no ``DISTINCT`` and no equality of whole documents. Keys can be looked up as usual.
    """

    def get_transform(self, name: str) -> Any:
        """Return what reads a key, or a transform registered under that name."""
        return super(models.JSONField, self).get_transform(name) or (lambda *args, **kwargs: Key(name, *args, **kwargs))

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

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        """Hand PostgreSQL the text itself; look-ups still compare ``jsonb``."""
        adapted = super().get_db_prep_save(value, connection)
        if connection.vendor != "postgresql" or not hasattr(adapted, "obj"):
            return adapted
        from psycopg.types.json import Json

        return Json(adapted.obj, adapted.dumps)
