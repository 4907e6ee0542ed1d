"""Migration operations that build and drop indexes of busy tables while others write to them.

On PostgreSQL they are done concurrently, so the migration must have ``atomic = False`` and hold nothing else. SQLite
has one writer at a time anyway.
"""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddIndex, AlterField, RemoveIndex
from django.db.migrations.state import ProjectState
from django.db.models import Index, Model


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
