"""Migration operations that build and drop indexes of busy tables while others write to them.

On PostgreSQL they are done concurrently, so the migration must have ``atomic = False`` and hold nothing else. SQLite
has one writer at a time anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddIndex, AlterField, RemoveIndex
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Index, Model

PATTERN_INDEXES = """
SELECT index.relname, attname FROM pg_index
JOIN pg_class AS index ON index.oid = indexrelid
JOIN pg_opclass ON pg_opclass.oid = indclass[0]
JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indrelid = to_regclass(quote_ident(%s)) AND indnatts = 1 AND index.relname LIKE '%%\\_like'
AND opcname IN ('varchar_pattern_ops', 'text_pattern_ops')
"""
"""The indexes of one table with the operators of LIKE, by their names as Django makes them, and their columns."""


class AddIndexConcurrently(AddIndex):
    """Add an index without making writers wait. What an interrupted attempt left behind is dropped first."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Build the index."""
        _build(to_state.apps.get_model(app_label, self.model_name), self.index, schema_editor)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Drop the index."""
        _drop(from_state.apps.get_model(app_label, self.model_name), self.index, schema_editor)


class RemoveIndexConcurrently(RemoveIndex):
    """Drop an index without making writers wait."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Drop the index."""
        index = from_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        _drop(from_state.apps.get_model(app_label, self.model_name), index, schema_editor)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Build the index."""
        index = to_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        _build(to_state.apps.get_model(app_label, self.model_name), index, schema_editor)


class DropFieldIndexConcurrently(AlterField):
    """Drop the index that a column has of its own (``db_index``), without making writers wait."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Drop the index."""
        model: Any = from_state.apps.get_model(app_label, self.model_name)
        if _has_table(model, schema_editor):
            for name in _names_of_index(model, model._meta.get_field(self.name).column, schema_editor):
                how = " CONCURRENTLY" if schema_editor.connection.vendor == "postgresql" else ""
                schema_editor.execute(f"DROP INDEX{how} IF EXISTS {schema_editor.quote_name(name)}")

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Build the index, while writers wait."""
        model: Any = to_state.apps.get_model(app_label, self.model_name)
        if _has_table(model, schema_editor):
            editor: Any = schema_editor
            for statement in editor._field_indexes_sql(model, model._meta.get_field(self.name)):
                schema_editor.execute(statement)


def _names_of_index(model: Any, column: str, schema_editor: BaseDatabaseSchemaEditor) -> list[str]:
    """Return the names of the indexes of one column that no index of the model's ``Meta`` is."""
    connection, named = schema_editor.connection, {index.name for index in model._meta.indexes}
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, model._meta.db_table)
    return [
        name
        for name, one in found.items()
        if one["index"] and not one["unique"] and one["columns"] == [column] and name not in named
    ]


def _build(model: type[Model], index: Index, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if not _has_table(model, schema_editor):
        return
    if schema_editor.connection.vendor == "postgresql":
        # An index whose build was interrupted exists and is not valid.
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(index.name)}")
    schema_editor.add_index(model, index, **_options(schema_editor))


def _drop(model: type[Model], index: Index, schema_editor: BaseDatabaseSchemaEditor) -> None:
    if _has_table(model, schema_editor):
        schema_editor.remove_index(model, index, **_options(schema_editor))


def _options(schema_editor: BaseDatabaseSchemaEditor) -> dict[str, Any]:
    return {"concurrently": True} if schema_editor.connection.vendor == "postgresql" else {}


def _has_table(model: type[Model], schema_editor: BaseDatabaseSchemaEditor) -> bool:
    """Return whether the routers keep the model's table in this database: a project may have several."""
    return bool(router.allow_migrate_model(schema_editor.connection.alias, model))


class DropPatternIndexes(Operation):
    """Drop the indexes for ``LIKE`` that Django makes on PostgreSQL beside every unique text and reference (``_like``),
    but those of the columns that are searched by a beginning. Each costs a write per row, and nothing reads it.

    ``kept``: model and field, ``run.id``. A migration that makes such columns ends with one of these.
    """

    reduces_to_sql = True

    def __init__(self, kept: Sequence[str]) -> None:
        """Name the fields whose index stays."""
        self.kept = tuple(kept)

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing: models do not name these indexes."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Drop them, without making writers wait."""
        for model in self._models(app_label, to_state, schema_editor):
            kept = {field.column for field in model._meta.local_fields if self._keeps(model, field)}
            for name, column in pattern_indexes(schema_editor.connection, model._meta.db_table).items():
                if column not in kept:
                    schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(name)}")

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Build them again, while writers wait."""
        editor: Any = schema_editor
        for model in self._models(app_label, to_state, schema_editor):
            there = set(pattern_indexes(schema_editor.connection, model._meta.db_table).values())
            for field in model._meta.local_fields:
                statement = None if field.column in there else editor._create_like_index_sql(model, field)
                if statement is not None:
                    schema_editor.execute(statement)

    def describe(self) -> str:
        """Return what it does."""
        return "Drop the indexes for LIKE that nothing reads"

    def _models(self, app_label: str, state: ProjectState, schema_editor: BaseDatabaseSchemaEditor) -> list[Any]:
        if schema_editor.connection.vendor != "postgresql":
            return []
        models: Iterable[Any] = state.apps.get_app_config(app_label).get_models()
        return [model for model in models if _has_table(model, schema_editor)]

    def _keeps(self, model: Any, field: Any) -> bool:
        return f"{model._meta.model_name}.{field.name}" in self.kept


def pattern_indexes(connection: BaseDatabaseWrapper, table: str) -> dict[str, str]:
    """Return the indexes of a table of PostgreSQL that Django made for ``LIKE``: name -> column."""
    with connection.cursor() as cursor:
        cursor.execute(PATTERN_INDEXES, [table])
        return dict(cursor.fetchall())
