"""The storages under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conformance.worlds import AnyWorld, DatabaseWorld, FileWorld, MemoryWorld

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
ON_POSTGRES = pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.nightly])
"""Where what a storage promises on both databases is all that is relied on."""


@pytest_asyncio.fixture(params=["memory", "file", *DATABASES])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyWorld]:
    """Give each storage in turn, with people around it."""
    world = make_world(request.param, request, tmp_path)
    yield world
    await world.storage.aclose()


@pytest_asyncio.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[DatabaseWorld]:
    """Give each of Django's databases in turn."""
    world = DatabaseWorld(request.getfixturevalue(f"{request.param}_alias"))
    yield world
    await world.storage.aclose()


def make_world(place: str, request: pytest.FixtureRequest, folder: Path) -> AnyWorld:
    """Return a world in memory, in a file, or in one of Django's databases."""
    if place == "memory":
        return MemoryWorld()
    if place == "file":
        return FileWorld(folder / "runs.sqlite3")
    return DatabaseWorld(request.getfixturevalue(f"{place}_alias"))
