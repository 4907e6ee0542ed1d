from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import pytest_asyncio
from django.db import connections

from checkpoints.conformance import CHUNKS, CLAIMS, DAMAGE, DRIVING, JOURNAL, STORAGE
from checkpoints.generic import GenericStorage, open_storage
from checkpoints.orm import DatabaseStorage
from tests.conformance.worlds import DatabaseWorld
from tests.conftest import migrated

MYSQL = os.environ.get("WFDASH_TEST_MYSQL", "")
"""``mysql://user:password@host/name?unix_socket=...``: an empty MariaDB or MySQL database."""
PLACES = ["sqlite", *(["mysql"] if MYSQL else [])]


@pytest.fixture(scope="session")
def mysql_alias(django_db_blocker: Any) -> Iterator[str]:
    """Give the name of a migrated MariaDB or MySQL database."""
    parts = urlsplit(MYSQL)
    socket = parse_qs(parts.query).get("unix_socket", [""])[0]
    settings = {
        "ENGINE": "django.db.backends.mysql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": socket or parts.hostname or "",
        "PORT": str(parts.port or ""),
    }
    yield from migrated("mysql", settings, django_db_blocker)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    """Name SQLite and what is configured, once it is ready."""
    return str(request.getfixturevalue(f"{request.param}_alias"))


@pytest_asyncio.fixture
async def world(place: str) -> AsyncIterator[DatabaseWorld]:
    """Give the storage for other databases there."""
    world = DatabaseWorld(place)
    world.storage = GenericStorage(place)
    yield world
    await world.storage.aclose()


@pytest.mark.parametrize(
    "check", [*STORAGE, *DAMAGE, *CHUNKS, *JOURNAL, *CLAIMS, *DRIVING], ids=lambda check: check.__name__
)
async def test_the_storage_for_other_databases_keeps_every_promise(
    check: Callable[..., Any], world: DatabaseWorld
) -> None:
    await check(world)


def test_a_storage_is_chosen_by_the_database(sqlite_alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(open_storage(sqlite_alias)) is DatabaseStorage
    monkeypatch.setattr(connections[sqlite_alias], "vendor", "mysql")
    assert type(open_storage(sqlite_alias)) is GenericStorage
