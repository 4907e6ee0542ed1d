"""A JSON column that keeps a document as it was written: key order, NUL characters and all."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.fields.json import KeyTransform
from django.db.models.query_utils import DeferredAttribute

from checkpoints.canonical import dumps, loads
from checkpoints.seal import MARK, SEALED, Sealer, sealed_in, sealer_of


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
        # MySQL's own type would sort the keys.
        return {"postgresql": "json", "mysql": "longtext"}.get(connection.vendor) or super().db_type(connection)

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


def current_sealer() -> Sealer:
    """Return the ring of keys that the settings name."""
    return sealer_of(getattr(settings, "WFDASH_ENCRYPTION_KEYS", ""))


class Held:
    """A document as it is stored: it opens when its row is known."""

    def __init__(self, document: Any) -> None:
        self.document = document

    @property
    def clear(self) -> dict[str, Any]:
        """What of it is readable without a key."""
        document = self.document if isinstance(self.document, dict) else {}
        return {name: value for name, value in document.items() if name != SEALED}


class SealedAttribute(DeferredAttribute):
    """Opens a stored document when it is first looked at."""

    field: Any

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, Held):
            value = instance.__dict__[self.field.attname] = self.field.open_held(value, *self.field.row_of(instance))
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class SealedTextField(models.TextField):  # type: ignore[type-arg]
    """Text that is stored encrypted where the settings name keys, bound to its row."""

    descriptor_class = SealedAttribute

    def __init__(self, table: str = "", row: tuple[str, ...] = (), **options: Any) -> None:
        """``row`` names the attributes that, with ``table``, say which row it is."""
        super().__init__(**options)
        self.table, self.row = table, row

    def deconstruct(self) -> Any:
        """Return a plain column's: for the database it is one."""
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.TextField", args, options

    def row_of(self, instance: models.Model) -> tuple[str, ...]:
        """Return the row's identity."""
        return tuple(str(getattr(instance, name)) for name in self.row)

    def open_held(self, held: Held, *row: str) -> Any:
        """Return the text of that row. ``Damaged``, ``Locked``."""
        return current_sealer().open(held.document, self.table, *row)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Read text; what is sealed stays so until its row is known."""
        return Held(value) if isinstance(value, str) and value.startswith(MARK) else value

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return what is stored."""
        value = super().pre_save(model_instance, add)
        return value if value is None else self.sealed(value, *self.row_of(model_instance))

    def sealed(self, value: str, *row: str) -> str:
        """Return what is stored in that row."""
        return current_sealer().seal(value, self.table, *row)


class SealedJsonField(JsonField):
    """A document that is stored encrypted where the settings name keys, bound to its row.

    SQL can only look up keys that are ``clear``. Values that bypass instances (``values()``) may be ``Held``: see
    ``opened``. ``update()`` seals nothing: give it what ``sealed_for`` returns.
    """

    descriptor_class = SealedAttribute

    def __init__(
        self, table: str = "", row: tuple[str, ...] = (), clear: frozenset[str] = frozenset(), **options: Any
    ) -> None:
        """``row`` names the attributes that, with ``table`` and the column, say which row it is."""
        super().__init__(**options)
        self.table, self.row, self.clear = table, row, clear

    def deconstruct(self) -> Any:
        """Return a plain column's: for the database it is one."""
        name, _, args, options = super().deconstruct()
        return name, "checkpoints.fields.JsonField", args, options

    def row_of(self, instance: models.Model) -> tuple[str, ...]:
        """Return the row's identity."""
        return tuple(str(getattr(instance, name)) for name in self.row)

    def open_held(self, held: Held, *row: str) -> Any:
        """Return the document of that row. ``Damaged``, ``Locked``."""
        return loads(current_sealer().open_document(dumps(held.document).decode(), self.table, *row, self.name))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Read a document; one that is sealed stays so until its row is known."""
        document = super().from_db_value(value, expression, connection)
        return document if sealed_in(document) is None else Held(document)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return what is stored."""
        value = super().pre_save(model_instance, add)
        if value is None or hasattr(value, "resolve_expression"):
            return value
        return self.sealed(value, *self.row_of(model_instance))

    def sealed(self, value: Any, *row: str) -> Any:
        """Return what is stored in that row."""
        text, sealer = dumps(value).decode(), current_sealer()
        if not sealer.active and MARK not in text:
            return value
        return loads(sealer.seal_document(text, self.table, *row, self.name, clear=self.clear))


def opened(model: type[models.Model], column: str, value: Any, *row: str) -> Any:
    """Return a value that was read without its instance. ``Damaged``, ``Locked``."""
    field: Any = model._meta.get_field(column)
    return field.open_held(value, *row) if isinstance(value, Held) else value


def sealed_for(model: type[models.Model], column: str, value: Any, *row: str) -> Any:
    """Return a value as ``update()`` has to store it in that one row."""
    field: Any = model._meta.get_field(column)
    return value if value is None else field.sealed(value, *row)
