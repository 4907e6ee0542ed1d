"""Connections to the PostgreSQL server itself, past a pooler in front of it; the names of all, and limits of threads.

Migrations, listeners and locks of a session need a server connection of their own, which a pooler in transaction mode
does not give. ``WFDASH_DATABASE_DIRECT`` is the address for them; without it they use the usual one.

A server that is unreachable is given up by the parameters of a connection. One that is reachable and does not answer (a
frozen machine, a disk that hangs) is given up by nothing but the limit of the thread that waits.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from math import ceil
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.utils.dateparse import parse_datetime

from checkpoints.database.alias import alias, connection
from checkpoints.errors import InvalidValue
from checkpoints.limits import findable, is_holdable
from checkpoints.rules import NEVER, time_or_none
from checkpoints.sql.conninfo import application_name, be_process, parameters_of, settings_of
from checkpoints.sql.sqlite import write_lock

# Keeps text that not every database can store out of every statement of the ORM, Django's own tables included.

LOOK_UPS = ("SELECT", "(SELECT", "DELETE")


def keep_storable(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement; text that no row can have finds nothing in a look-up, and is refused elsewhere."""
    if params and not many and not is_holdable("".join([value for value in params if isinstance(value, str)])):
        if not sql.lstrip().upper().startswith(LOOK_UPS):
            raise InvalidValue("Text holds NUL or half a character (a lone surrogate): remove it")
        params = [findable(value) if isinstance(value, str) else value for value in params]
    return execute(sql, params, many, context)


# Makes every ORM write on SQLite take the process's write lock first (sessions, the admin and shells included).

READS = ("SELECT", "PRAGMA", "EXPLAIN", "SAVEPOINT", "RELEASE", "ROLLBACK")


def with_write_lock(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement, under the write lock if it writes outside a transaction."""
    if context["connection"].in_atomic_block or sql.lstrip().upper().startswith(READS):
        return execute(sql, params, many, context)
    with write_lock:
        return execute(sql, params, many, context)


def guard_connection(sender: object, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Install the wrappers on a new connection of the ORM; one of SQLite reads what is no time as ``NEVER``."""
    if keep_storable in connection.execute_wrappers:
        return
    connection.execute_wrappers.append(keep_storable)
    if connection.vendor == "sqlite":
        connection.execute_wrappers.append(with_write_lock)
        # Django's own do so only in some columns, and only for text of another form.
        sqlite3.register_converter("datetime", read_time)
        ops: Any = connection.ops
        ops.convert_datetimefield_value = partial(time_or_never, ops.convert_datetimefield_value)


def read_time(stored: bytes) -> datetime | str:
    """Return a stored time; text that is none as it is, for a connection that is not wfdash's to refuse."""
    text = stored.decode(errors="replace")
    return time_or_none(parse_datetime, text) or text


def time_or_never(convert: Callable[..., Any], value: Any, *more: Any) -> Any:
    """Return a stored time, ``NEVER`` for what is none; None for null."""
    return None if value is None else time_or_none(convert, value, *more) or NEVER


def install_guards() -> None:
    """Connect the wrappers to every connection that is opened from now on."""
    connection_created.connect(guard_connection, dispatch_uid="checkpoints.database.direct")


NEEDS_DIRECT = (
    "WFDASH_DATABASE leads to a connection pooler. {what} needs a connection of its own: set WFDASH_DATABASE_DIRECT to "
    "the address of the PostgreSQL server behind it (docs/processes.md, PostgreSQL)"
)


def direct_settings() -> dict[str, Any]:
    """Return Django's setting of the database at the server's own address."""
    usual = connections.settings[alias()]
    url = getattr(settings, "WFDASH_DATABASE_DIRECT", "")
    if not url:
        return dict(usual)
    return {**usual, **settings_of(url, name="WFDASH_DATABASE_DIRECT")}


def direct_parameters() -> dict[str, Any]:
    """Return psycopg's parameters of a connection to the server itself."""
    return parameters_of(direct_settings())


@contextlib.contextmanager
def direct_connection() -> Iterator[BaseDatabaseWrapper]:
    """Let Django's connection of this thread be one to the server itself until the body ends; it is closed then."""
    usual = connection()
    own = usual.__class__(direct_settings(), alias())
    connections[alias()] = own
    try:
        yield own
    finally:
        own.close()
        connections[alias()] = usual


def refuse_pooler(reached: BaseDatabaseWrapper, what: str) -> None:
    """Raise ``ImproperlyConfigured`` where this connection leads through a pooler. ``what`` needs another."""
    if is_pooled(reached):
        raise ImproperlyConfigured(NEEDS_DIRECT.format(what=what))


def is_pooled(reached: BaseDatabaseWrapper) -> bool:
    """Return whether this connection to PostgreSQL leads through a pooler: those number server processes themselves."""
    reached.ensure_connection()
    raw: Any = reached.connection
    with reached.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return bool(cursor.fetchone()[0] != raw.info.backend_pid)


def name_connections(role: str) -> None:
    """Let operators see in ``pg_stat_activity`` what this process does: for connections that are opened later."""
    be_process(role)
    usual = connections.settings[alias()]
    if "postgresql" in usual["ENGINE"]:
        usual["OPTIONS"] = {**usual.get("OPTIONS", {}), "fallback_application_name": application_name("pages")}


class _Patience(threading.local):
    left: float | None = None


patience = _Patience()
"""Seconds that this thread may still wait for replies; None: as long as it takes."""


@contextlib.contextmanager
def replies_within(seconds: float) -> Iterator[None]:
    """Let this thread wait for so many seconds in all for the database's replies, not counting what else it does.

    After that the statement raises ``OperationalError``, and its connection is closed: what it asked for last may
    still happen if that was a commit, and nothing else of its transaction. Only in threads that ``keep_limits``.
    """
    before, patience.left = patience.left, seconds
    try:
        yield
    finally:
        patience.left = before


def keep_limits() -> None:
    """Let the connections of this thread, from the next one on, keep to its limits. Once a thread, at its start."""
    usual: Any = connection()
    if usual.vendor != "postgresql":
        return  # SQLite has a limit of its own, and no server that could be silent
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if is_psycopg3:
        from checkpoints.sql.postgres_scripts import be_impatient

        open_usual = usual.get_new_connection

        def open_impatient(parameters: dict[str, Any]) -> Any:
            left = patience.left
            if left is None:
                return be_impatient(open_usual(parameters), patience)
            most = min(int(parameters.get("connect_timeout") or ceil(left)), max(1, ceil(left)))
            began = time.monotonic()
            try:
                return be_impatient(open_usual({**parameters, "connect_timeout": most}), patience)
            finally:
                patience.left = left - (time.monotonic() - began)

        usual.get_new_connection = open_impatient
