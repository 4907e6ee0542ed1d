"""Django system checks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from checkpoints.database.alias import alias, connection

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
