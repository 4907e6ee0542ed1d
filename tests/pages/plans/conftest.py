from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections


@pytest.fixture(params=["sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)])
def in_database(request: Any, django_db_blocker: Any) -> Iterator[ThreadPoolExecutor]:
    """A thread whose default database is one of both: connections are made by thread, from the settings."""
    alias, before = request.getfixturevalue(request.param), connections.settings[DEFAULT_DB_ALIAS]
    connections.settings[DEFAULT_DB_ALIAS] = connections.settings[alias]
    try:
        with django_db_blocker.unblock(), ThreadPoolExecutor(1) as thread:
            yield thread
            thread.submit(lambda: connections[DEFAULT_DB_ALIAS].close()).result()
    finally:
        connections.settings[DEFAULT_DB_ALIAS] = before
