"""The database's schema: what it lacks, migrations by one process at a time, and waiting until another did them.

Several processes that start together on an empty database would create its tables at once, and all but one would fail.
Django's system checks refuse a database that is not supported, or whose migrations have gaps.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Set
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import RunPython
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from checkpoints.database.alias import alias, connection
from checkpoints.database.direct import direct_connection, refuse_pooler

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
    """Return the migrations that this database lacks, of those that are needed, as ``app.name``. ``DatabaseError``."""
    return sorted(f"{app}.{name}" for app, name in needed_migrations() - _applied())


def _applied() -> Set[tuple[str, str]]:
    return MigrationRecorder(connection()).applied_migrations().keys()


@lru_cache(maxsize=1)
def needed_migrations() -> frozenset[tuple[str, str]]:
    """Return the last migration of each app, and those that our first one replaces, because it has a replaced one's
    name; read from disk once, because code does not change under a process.
    """
    loader = MigrationLoader(None)
    return frozenset({*loader.graph.leaf_nodes(), *loader.replacements["checkpoints", "0001_initial"].replaces})


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
            for app, name in (*migration.replaces, (migration.app_label, migration.name)):
                executor.recorder.record_applied(app, name)
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


SUPPORTED = frozenset({"sqlite", "postgresql"})


@register()
def check_database(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Return errors for databases that cannot store runs, before anything is lost in them."""
    if alias() not in connections.settings:
        names = ", ".join(repr(name) for name in connections.settings)
        return [
            Error(
                f"WFDASH_DATABASE_ALIAS is {alias()!r}, which is no database.",
                hint=f"Name one of DATABASES ({names}), or leave it empty.",
                id="checkpoints.E003",
            )
        ]
    if connection().vendor in SUPPORTED:
        return check_file(connection().settings_dict)
    return [
        Error(
            f"Runs cannot be kept in {connection().vendor}.",
            hint=f"Use SQLite or PostgreSQL in DATABASES[{alias()!r}].",
            id="checkpoints.E001",
        )
    ]


def refuse_database() -> None:
    """Raise ``ImproperlyConfigured`` for a database that cannot store runs, before it is migrated."""
    for problem in check_database(None):
        raise ImproperlyConfigured(f"{problem.msg} {problem.hint}")


def check_file(settings: dict[str, Any]) -> list[CheckMessage]:
    """Return an error for SQLite in memory: each thread would have a database of its own."""
    if settings["ENGINE"].endswith("sqlite3") and ":memory:" in str(settings["NAME"]):
        hint = f"Give DATABASES[{alias()!r}]['NAME'] a path."
        return [Error("Runs need an SQLite database in a file.", hint=hint, id="checkpoints.E002")]
    return []


def refuse_gaps(using: str, **facts: Any) -> None:
    """Raise ``ImproperlyConfigured`` for a database with only some of the migrations that were squashed into one.

    Django would find nothing to do there. Called before each ``migrate``.
    """
    replaced = {name for _, name in import_module("checkpoints.migrations.0001_initial").Migration.replaces}
    applied = {name for app, name in MigrationRecorder(connections[using]).applied_migrations() if app == "checkpoints"}
    missing = sorted(replaced - applied)
    if applied and missing:
        raise ImproperlyConfigured(
            f"The database {using!r} lacks the migration checkpoints.{missing[0]}, which this version replaces: "
            "migrate it with the version before the migrations became one (it has 30), then with this one"
        )
