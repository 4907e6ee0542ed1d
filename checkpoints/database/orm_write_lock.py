"""Makes every ORM write on SQLite take the process's write lock first (sessions, the admin and shells included).

SQLite's busy handler polls, so an ORM connection would starve beside a busy writer thread. A statement that takes
SQLite's write lock therefore acquires the fair lock of the process first; inside a transaction it is held already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from checkpoints.sql.sqlite.executor import write_lock

READS = ("SELECT", "PRAGMA", "EXPLAIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


def with_write_lock(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement, under the write lock if it writes outside a transaction."""
    if context["connection"].in_atomic_block or sql.lstrip().upper().startswith(READS):
        return execute(sql, params, many, context)
    with write_lock:
        return execute(sql, params, many, context)


def wrap_writes(sender: object, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Install the wrapper on a new SQLite connection of the ORM."""
    if connection.vendor == "sqlite" and with_write_lock not in connection.execute_wrappers:
        connection.execute_wrappers.append(with_write_lock)


def install() -> None:
    """Connect the wrapper to every connection that is opened from now on."""
    connection_created.connect(wrap_writes, dispatch_uid="checkpoints.database.orm_write_lock")
