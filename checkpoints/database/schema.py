"""The database's schema: what it lacks, migrations by one process at a time, and waiting until another did them.

Several processes that start together on an empty database would create its tables at once, and all but one would fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddIndex, AlterField, RemoveIndex
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import RunPython
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState
from django.db.models import Index, Model

from checkpoints.database.alias import alias, connection
from checkpoints.database.direct import direct_connection, refuse_pooler

# Migration operations that build and drop indexes of busy tables while others write to them.

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


# What the schema lacks, who migrates it, and who waits.

OWN_APPS = frozenset(
    {
        "account",
        "admin",
        "auth",
        "checkpoints",
        "checkpoints_langgraph",
        "contenttypes",
        "mfa",
        "sessions",
        "socialaccount",
    }
)
"""The apps of wfdash as a project of its own, those for sign-in at a provider included."""
LOCK = 0x776664617368
"""PostgreSQL's advisory lock of who migrates: a number that no one else has much reason to choose."""
RETRY_SECONDS = 0.3
SAY_SECONDS = 5.0
"""Between two lines of who waits."""
Say = Callable[[str], None]


def missing_migrations() -> list[str]:
    """Return the last migrations of apps that this database lacks, as ``app.name``. ``DatabaseError``."""
    return sorted(f"{app}.{name}" for app, name in last_migrations() - _applied())


def _applied() -> Set[tuple[str, str]]:
    return MigrationRecorder(connection()).applied_migrations().keys()


@lru_cache(maxsize=1)
def last_migrations() -> frozenset[tuple[str, str]]:
    """Return the last migration of each app; read from disk once, because code does not change under a process."""
    return frozenset((app, name) for app, name in MigrationLoader(None).graph.leaf_nodes())


def migrate(say: Say) -> list[str]:
    """Bring the schema up to date and return the migrations that it lacked, as ``app.name``. Of several processes one
    does, the others wait and find nothing left to do.

    ``ImproperlyConfigured`` behind a pooler without a direct address.
    """
    with _only_one(say):
        before = _applied()
        if connection().vendor == "sqlite" and not connection().introspection.table_names():
            create_schema(connection())
        call_command("migrate", database=alias(), verbosity=0, interactive=False)
        return sorted(f"{app}.{name}" for app, name in _applied() - before)


def create_schema(used: BaseDatabaseWrapper) -> bool:
    """Create the tables of an empty database as all migrations together would leave them, and record those as applied:
    in one transaction, and in a tenth of the time that Django takes to derive each step from the one before.

    False, and nothing is done, where apps of a project are installed, too: what their migrations write is not known.
    """
    executor = MigrationExecutor(used)
    plan = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
    if not OWN_APPS.issuperset(migration.app_label for migration in plan):
        return False
    state = ProjectState()
    for migration in plan:
        migration.mutate_state(state, preserve=False)
    with used.schema_editor() as editor:
        editor.create_model(executor.recorder.Migration)
        for model in state.apps.get_models():
            if model._meta.can_migrate(used) and router.allow_migrate_model(used.alias, model):
                editor.create_model(model)
        for migration in plan:
            for step in migration.operations:
                if isinstance(step, RunPython):
                    step.database_forwards(migration.app_label, editor, state, state)
            executor.record_migration(migration)  # type: ignore[call-arg, arg-type]
    return True


def await_schema(say: Say, then: Callable[[], object]) -> None:
    """Return once the database is reachable, its schema is at least this code's and ``then`` is done; says why not
    every 5 seconds. ``then`` is called again where a server that crashed, recovers or does not write let it fail.
    """
    due = time.monotonic()
    while why := _why_not(then):
        if time.monotonic() >= due:
            say(why)
            due = time.monotonic() + SAY_SECONDS
        connection().close()
        time.sleep(RETRY_SECONDS)


def _why_not(then: Callable[[], object]) -> str:
    ready = False
    try:
        missing = missing_migrations()
        ready = not missing
        if ready:
            then()
            return ""
    except (DatabaseError, InterfaceError) as error:
        # A server recovers by itself; a file that cannot be written does not, nor does a statement that is wrong.
        recovers = connection().vendor != "sqlite" and isinstance(
            error, OperationalError | InterfaceError | InternalError
        )
        if ready and not recovers:
            raise
        return f"Waiting for the database: {str(error).strip().partition(chr(10))[0]}"
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"Waiting for the database's schema: {missing[0]}{more} not applied. 'wfdash migrate' does it"


@contextlib.contextmanager
def _only_one(say: Say) -> Iterator[None]:
    """Keep other processes from migrating until the body ends."""
    if connection().vendor == "sqlite":
        with _folder_locked(Path(str(connection().settings_dict["NAME"])).parent):
            yield
        return
    with direct_connection() as own:
        refuse_pooler(own, "Migrating")
        _take_lock(own, say)
        # Closing the connection releases it, also where the process is killed.
        yield


def _take_lock(own: BaseDatabaseWrapper, say: Say) -> None:
    """Wait for the lock by asking again: a statement that waits would hold up an index that is built concurrently."""
    due = time.monotonic() + SAY_SECONDS
    with own.cursor() as cursor:
        while True:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
            if cursor.fetchone()[0]:
                return
            if time.monotonic() >= due:
                say("Waiting for another process that migrates the database")
                due = time.monotonic() + SAY_SECONDS
            time.sleep(RETRY_SECONDS)


@contextlib.contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """Lock a folder: not the file in it, whose locks SQLite would lose once it is closed here."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)
