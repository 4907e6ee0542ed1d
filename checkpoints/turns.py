"""Gives every ORM write its turn on SQLite, also where nobody thought of it (sessions, the admin, a shell).

SQLite's own waiting is a lottery that one loses against a busy writer thread. A statement that would take the
write lock therefore queues at the process's gate first; inside a transaction the lock is held already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from checkpoints.sqlite import gate

READS = ("SELECT", "PRAGMA", "EXPLAIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


def wait_turn(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement; one that takes the write lock, at the head of the queue."""
    if context["connection"].in_atomic_block or sql.lstrip().upper().startswith(READS):
        return execute(sql, params, many, context)
    with gate:
        return execute(sql, params, many, context)


def queue_up(sender: object, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Make a new SQLite connection of the ORM wait its turn."""
    if connection.vendor == "sqlite" and wait_turn not in connection.execute_wrappers:
        connection.execute_wrappers.append(wait_turn)


def install() -> None:
    """Do so for every connection from now on."""
    connection_created.connect(queue_up, dispatch_uid="checkpoints.turns")
