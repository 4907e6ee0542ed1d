"""A PostgreSQL database for several processes, and a pooler in front of its server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import pytest

from tests.cluster.pooler import Pooler


@pytest.fixture(scope="module")
def new_database(postgres_server: dict[str, Any]) -> str:
    """Give the address of a database without tables."""
    server = {name: postgres_server[name.upper()] for name in ("host", "user", "password", "port")}
    given = {name: value for name, value in server.items() if value}
    name = f"cluster_{uuid4().hex[:10]}"
    with psycopg.connect(**given, dbname=postgres_server["NAME"], autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return f"postgresql:///{name}?{urlencode(given)}"


@pytest.fixture(scope="module")
def pooler(postgres_server: dict[str, Any]) -> Iterator[Pooler]:
    """Give a pooler that refuses whatever it does not know."""
    pooler = Pooler(postgres_server)
    yield pooler
    pooler.stop()
