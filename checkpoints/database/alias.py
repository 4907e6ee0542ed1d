"""Which of Django's databases has wfdash's tables: the one ``WFDASH_DATABASE_ALIAS`` names, else the default one.

The ORM finds it by ``checkpoints.database.router``. What names a database itself takes it from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper


def alias() -> str:
    """Return the name in ``DATABASES`` of the database with wfdash's tables."""
    return getattr(settings, "WFDASH_DATABASE_ALIAS", "") or DEFAULT_DB_ALIAS


def connection() -> BaseDatabaseWrapper:
    """Return this thread's connection to that database."""
    return connections[alias()]


def atomic() -> Any:
    """Return Django's ``atomic`` for that database: inside a transaction, a savepoint."""
    return transaction.atomic(alias())


def on_commit(call: Callable[[], Any]) -> None:
    """Call this once the transaction of that database is committed; now, if there is none."""
    transaction.on_commit(call, using=alias())
