"""Columns that are the same on every database: texts within their limits, documents as they were written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement
from django.db.models import Func, Index, IntegerField, Model, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.lookups import Lookup
from django.db.models.query_utils import DeferredAttribute
from django.db.models.sql.compiler import SQLCompiler

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.content.encryption import MARK, Encryptor, encrypted_text_in, encryptor_of
from checkpoints.content.pickles import Keyring, keyring_of
from checkpoints.errors import Damaged, InvalidValue
from checkpoints.events import UNENCRYPTED
from checkpoints.limits import findable, is_storable
from checkpoints.rules import NEVER
from checkpoints.sql.statements import POSTGRES, SQLITE

_S = TypeVar("_S", contravariant=True)
_G = TypeVar("_G", covariant=True)


class Portable(models.Field):  # type: ignore[type-arg]
    """Text that every database accepts: too long text, or with NUL or a lone surrogate, is refused before the query.

    A look-up of text that no database could store finds nothing.
    """

    def deconstruct(self) -> Any:
        """Return those of a plain column: for the database it is one."""
        name, path, args, options = super().deconstruct()
        return name, path.replace("checkpoints.models.fields", "django.db.models"), args, options

    def get_prep_value(self, value: Any) -> Any:
        """Return the value that a look-up compares with."""
        prepared = super().get_prep_value(value)
        return findable(prepared) if isinstance(prepared, str) else prepared

    def get_lookup(self, lookup_name: str) -> Any:
        """Return the look-up class; Django prepares no value for look-ups within a text."""
        kind = super().get_lookup(lookup_name)
        return kind if kind is None or kind.prepare_rhs else portable(kind)  # type: ignore[arg-type]

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        """Return the stored value. ``InvalidValue`` names the column."""
        if not isinstance(value, str):
            return super().get_db_prep_save(value, connection)
        most = self.max_length
        if most is not None and len(value) > most:
            words = f"at most {most} characters fit, not {len(value)}: shorten it"
        elif (value.isascii() and "\0" not in value) or is_storable(value):
            return value
        else:
            words = "holds NUL or half a character (a lone surrogate), which cannot be stored: remove it"
        column = f"{self.model._meta.model_name}.{self.name}"
        raise InvalidValue(f"{column}: {words}", field=column)


@lru_cache
def portable(kind: type[Lookup[Any]]) -> type[Lookup[Any]]:
    """Return a look-up within texts that finds nothing for text that cannot be stored."""

    class PortableLookup(kind):  # type: ignore[misc, valid-type]
        def get_prep_lookup(self) -> Any:
            value = super().get_prep_lookup()
            return findable(value) if isinstance(value, str) else value

    return PortableLookup


if TYPE_CHECKING:

    class CharField(models.CharField[_S, _G]):
        """Text of limited length."""

    class TextField(models.TextField[_S, _G]):
        """Text of any length."""

else:

    class MatchesPlainField(type):
        """Makes ``isinstance`` accept the plain field, because Django compares field types within an expression."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, vars(cls).get("plain", ())) or super().__instancecheck__(instance)

    class CharField(Portable, models.CharField, metaclass=MatchesPlainField):
        """Text of limited length."""

        plain = models.CharField

    class TextField(Portable, models.TextField, metaclass=MatchesPlainField):
        """Text of any length."""

        plain = models.TextField


class BrokenText(str):
    """What a column of documents holds that is no JSON: to read it as an attribute raises ``Damaged``."""


class StoredDocument:
    """A stored document, decrypted once its row is known."""

    def __init__(self, document: Any) -> None:
        self.document = document

    @property
    def clear(self) -> dict[str, Any]:
        """Return the entries that are readable without a key."""
        document = self.document if isinstance(self.document, dict) else {}
        return {name: value for name, value in document.items() if name in UNENCRYPTED}


class DecryptingAttribute(DeferredAttribute):
    """Decrypts a stored document when the attribute is first read."""

    field: Any

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, BrokenText):
            raise Damaged(f"The row's {self.field.name} cannot be read")
        if isinstance(value, StoredDocument):
            value = instance.__dict__[self.field.attname] = self.field.decrypt_stored(
                value, *self.field.row_of(instance)
            )
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class ReadableKey(KeyTransform):
    """A key within a document; null in a row of SQLite whose text is no JSON, which would fail the whole query."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """Return the expression."""
        sql, params = super().as_sqlite(compiler, connection)
        column, given, _ = self.preprocess_lhs(compiler, connection)
        return f"(CASE WHEN json_valid({column}) THEN {sql} END)", (*given, *params)


class TextKey(ReadableKey, KeyTextTransform):
    """The text of a key within a document."""


KT = TextKey.from_lookup


class JsonKey(ReadableKey):
    """A key within a document: PostgreSQL compares it as ``jsonb``, because ``json`` knows no equality."""

    def preprocess_lhs(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, Any, Any]:
        """Cast the column."""
        sql, params, keys = super().preprocess_lhs(compiler, connection)
        return (f"({sql})::jsonb" if connection.vendor == "postgresql" else sql), params, keys


class JsonField(models.JSONField):
    """Like Django's, but ``json`` instead of ``jsonb`` on PostgreSQL.

    ``jsonb`` sorts keys and refuses NUL, yet a form shows its fields in the order of their schema. The cost: no
    ``DISTINCT`` and no equality of whole documents. Keys can be looked up as usual.
    """

    descriptor_class = DecryptingAttribute

    def get_transform(self, name: str) -> Any:
        """Return the transform that reads a key, or one registered under that name."""
        return super(models.JSONField, self).get_transform(name) or (
            lambda *args, **kwargs: JsonKey(name, *args, **kwargs)
        )

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return a document: as ``BrokenText`` what is no JSON, nor an object or list of texts as the default is."""
        document = super().from_db_value(value, expression, connection)
        if isinstance(expression, KeyTransform) or document is None:
            return document
        fits = not self.has_default() or isinstance(document, (self.default, str))  # What is encrypted is text.
        fits = fits and (self.default is not list or all(isinstance(one, str) for one in document))
        return document if fits and document is not value else BrokenText(value)

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        """Return the column type."""
        return "json" if connection.vendor == "postgresql" else super().db_type(connection)

    def db_check(self, connection: BaseDatabaseWrapper) -> str | None:
        """Add no check: every writer serialises, and re-parsing each value costs more than writing it."""
        return None

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        """Return the column cast to text: psycopg would otherwise parse ``json`` before Django does."""
        if compiler.connection.vendor == "postgresql":
            return f"({sql})::text", params
        return super().select_format(compiler, sql, params)

    def get_db_prep_save(self, value: Any, connection: BaseDatabaseWrapper) -> Any:
        """Return the text itself for PostgreSQL; look-ups still compare ``jsonb``."""
        adapted = super().get_db_prep_save(value, connection)
        if connection.vendor != "postgresql" or not hasattr(adapted, "obj"):
            return adapted
        from psycopg.types.json import Json

        return Json(adapted.obj, adapted.dumps)


class MomentField(models.DateTimeField):  # type: ignore[type-arg]
    """A point in time, on SQLite always text with six decimals, as every SQL statement writes it.

    Django omits the decimals of a whole second, and SQLite compares text: the same time would then be neither equal to
    itself nor in order with others. Give a ``Value`` or a computed column this field, too.
    """

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return a time: for what is none ``NEVER``, or None where the column may have none."""
        return None if value is NEVER and self.null else value

    def deconstruct(self) -> Any:
        """Return those of a plain column: for the database it is one."""
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, options

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Return a time as it is stored and compared."""
        value = value if prepared else self.get_prep_value(value)
        if connection.vendor == "sqlite" and isinstance(value, datetime) and value.tzinfo is not None:
            return SQLITE.moment(value)
        return super().get_db_prep_value(value, connection, prepared=True)


def current_encryptor() -> Encryptor:
    """Return the ring of encryption keys of the settings."""
    return encryptor_of(getattr(settings, "WFDASH_ENCRYPTION_KEYS", ""))


def current_keyring() -> Keyring:
    """Return the keys that sign the audit: those of the settings, else the installation's secret key."""
    otherwise = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return keyring_of(getattr(settings, "WFDASH_AUDIT_KEY", ""), *otherwise)


def identity_by(row: tuple[str, ...]) -> Callable[[models.Model], tuple[str, ...]]:
    """Return what reads these attributes of an instance, named as in a query: ``thread__family`` is the thread's
    family.
    """
    # A second name, which is cut off: of one alone the getter would return no tuple.
    get = attrgetter(*(name.replace("__", ".") for name in row), "pk")
    return lambda instance: tuple(map(str, get(instance)[:-1]))


class EncryptedTextField(TextField):  # type: ignore[type-arg]
    """Text that is stored encrypted where the settings name keys, bound to its row."""

    descriptor_class = DecryptingAttribute

    def __init__(self, table: str = "", row: tuple[str, ...] = (), **options: Any) -> None:
        """``row`` names the attributes, as in a query, that identify the row together with ``table``."""
        super().__init__(**options)
        self.table, self.row = table, row
        self.row_of = identity_by(row)

    def deconstruct(self) -> Any:
        """Return those of a plain column: for the database it is one."""
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.TextField", args, options

    def decrypt_stored(self, held: StoredDocument, *row: str) -> Any:
        """Return the text of that row. ``Damaged``, ``Locked``."""
        return current_encryptor().decrypt(held.document, self.table, *row)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return text; encrypted text is decrypted (or plain text refused) once its row is known."""
        held = isinstance(value, str) and (value.startswith(MARK) or current_encryptor().strict)
        return StoredDocument(value) if held else value

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the stored value."""
        value = super().pre_save(model_instance, add)
        return value if value is None else self.encrypted(value, *self.row_of(model_instance))

    def encrypted(self, value: str, *row: str) -> str:
        """Return the stored value for that row."""
        return current_encryptor().encrypt(value, self.table, *row)


class EncryptedJsonField(JsonField):
    """A document that is stored encrypted where the settings name keys, bound to its row.

    SQL can only look up keys that are ``clear``. Values that bypass instances (``values()``) may be a
    ``StoredDocument``: see ``decrypted``. ``update()`` encrypts nothing: give it the result of ``encrypted_for``.
    """

    def __init__(
        self, table: str = "", row: tuple[str, ...] = (), clear: frozenset[str] = frozenset(), **options: Any
    ) -> None:
        """``row`` names the attributes, as in a query, that identify the row together with ``table`` and the column."""
        super().__init__(**options)
        self.table, self.row, self.clear = table, row, clear
        self.row_of = identity_by(row)

    def deconstruct(self) -> Any:
        """Return those of a plain column: for the database it is one."""
        name, _, args, options = super().deconstruct()
        return name, "checkpoints.models.fields.JsonField", args, options

    def decrypt_stored(self, held: StoredDocument, *row: str) -> Any:
        """Return the document of that row. ``Damaged``, ``Locked``."""
        return loads(current_encryptor().decrypt_document(dumps(held.document).decode(), self.table, *row, self.name))

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return a document; an encrypted one is decrypted (or a plain one refused) once its row is known.

        A key within a document that has to be encrypted reads as None, unless it is one of those in the clear.
        """
        document = super().from_db_value(value, expression, connection)
        if isinstance(expression, KeyTransform):
            return document if expression.key_name in self.clear or not current_encryptor().strict else None
        held = encrypted_text_in(document) is not None or (value is not None and current_encryptor().strict)
        return StoredDocument(document) if held else document

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        """Return the stored value."""
        value = super().pre_save(model_instance, add)
        if value is None or hasattr(value, "resolve_expression"):
            return value
        return self.encrypted(value, *self.row_of(model_instance))

    def encrypted(self, value: Any, *row: str) -> Any:
        """Return the stored value for that row."""
        text, encryptor = dumps(value).decode(), current_encryptor()
        if not encryptor.active and MARK not in text:
            return value
        return loads(encryptor.encrypt_document(text, self.table, *row, self.name, clear=self.clear))


def decrypted(model: type[models.Model], column: str, value: Any, *row: str) -> Any:
    """Return a value that was read without its instance. ``Damaged``, ``Locked``."""
    field: Any = model._meta.get_field(column)
    return field.decrypt_stored(value, *row) if isinstance(value, StoredDocument) else value


def encrypted_for(model: type[models.Model], column: str, value: Any, *row: str) -> Any:
    """Return the value that ``update()`` has to store in that one row."""
    field: Any = model._meta.get_field(column)
    return value if value is None else field.encrypted(value, *row)


# Expressions and indexes that the databases spell differently: the card's headline as a column, an index of lists of

LONGEST = 300
"""Characters of a headline in lists."""
JSON_ROWS = {
    SQLITE.name: "(SELECT json_group_array(json_array(%(columns)s)) FROM (%(subquery)s) AS found)",
    POSTGRES.name: "(SELECT json_agg(json_build_array(%(columns)s))::text FROM (%(subquery)s) AS found)",
}
"""By dialect: the rows of a query as one JSON text."""


class Headline(Func):
    """The ``subject`` of the card in a column, cut to 300 characters; null where there is none to read."""

    output_field = models.TextField()
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

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression; PostgreSQL's is of what is stored compressed."""
        function = "length" if connection.vendor == SQLITE.name else "pg_column_size"
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

    output_field = models.TextField()

    def __init__(self, found: QuerySet[Any, Any], *columns: str) -> None:
        super().__init__(found, columns=", ".join(f'found."{name}"' for name in columns))

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **extra: Any
    ) -> tuple[str, Any]:
        """Return the expression."""
        return super().as_sql(compiler, connection, JSON_ROWS[connection.vendor], **extra)


class DatabaseNow(Func):
    """The database's time at this statement, as the statements of ``checkpoints.sql`` write it."""

    output_field = MomentField()

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **extra: Any
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the expression."""
        dialect = SQLITE if connection.vendor == SQLITE.name else POSTGRES
        return dialect.now.replace("%", "%%"), ()
