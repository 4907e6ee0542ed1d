"""Keeps text that not every database can store out of every statement of the ORM, Django's own tables included.

NUL and lone surrogates are errors of the driver, on one database or the other. A look-up for such text finds nothing; a
write raises a clear error. Our own columns check more (``checkpoints.models.fields``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from checkpoints.errors import InvalidValue
from checkpoints.limits import findable, is_holdable

LOOK_UPS = ("SELECT", "(SELECT", "DELETE")


def keep_storable(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Execute a statement; text that no row can have finds nothing in a look-up, and is refused elsewhere."""
    if params and not many and not all(is_holdable(value) for value in params if isinstance(value, str)):
        if not sql.lstrip().upper().startswith(LOOK_UPS):
            raise InvalidValue("Text holds NUL or half a character (a lone surrogate): remove it")
        params = [findable(value) if isinstance(value, str) else value for value in params]
    return execute(sql, params, many, context)


def guard_connection(sender: object, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Install the wrapper on a new connection of the ORM."""
    if keep_storable not in connection.execute_wrappers:
        connection.execute_wrappers.append(keep_storable)


def install() -> None:
    """Connect the wrapper to every connection that is opened from now on."""
    connection_created.connect(guard_connection, dispatch_uid="checkpoints.database.text_guard")
