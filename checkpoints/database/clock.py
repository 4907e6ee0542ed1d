"""The database's clock, by which due times are compared in every process."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.storage import run_statement


def database_now() -> datetime:
    """Return the database's time; SQLite's is this process's."""
    if connection().vendor == "sqlite":
        return timezone.now()
    ((now,),) = run_statement(connection(), "SELECT clock_timestamp()")
    return now  # type: ignore[no-any-return]
