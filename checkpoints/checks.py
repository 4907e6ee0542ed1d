"""Django system checks."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.db import connection


@register()
def check_database(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse databases that runs cannot be kept in, before anything is lost in them."""
    if connection.vendor in {"sqlite", "postgresql", "mysql"}:
        return check_file(connection.settings_dict)
    return [
        Error(
            f"Runs cannot be kept in {connection.vendor}.",
            hint="Use SQLite or PostgreSQL (or MariaDB, which is slower) in DATABASES['default'].",
            id="checkpoints.E001",
        )
    ]


def check_file(settings: dict[str, Any]) -> list[CheckMessage]:
    """Refuse SQLite in memory: each thread would see a database of its own."""
    if settings["ENGINE"].endswith("sqlite3") and ":memory:" in str(settings["NAME"]):
        hint = "Give DATABASES['default']['NAME'] a path."
        return [Error("Runs need an SQLite database in a file.", hint=hint, id="checkpoints.E002")]
    return []
