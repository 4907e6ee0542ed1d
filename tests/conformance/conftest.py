"""The storages under test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.worlds import DatabaseWorld, MemoryWorld, World

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=["memory", *DATABASES])
def place(request: pytest.FixtureRequest) -> str:
    """Name each place in turn, once it is ready."""
    place: str = request.param
    return place if place == "memory" else str(request.getfixturevalue(f"{place}_alias"))


@pytest.fixture(params=DATABASES)
def database_place(request: pytest.FixtureRequest) -> str:
    """Name each database in turn, once it is ready."""
    return str(request.getfixturevalue(f"{request.param}_alias"))


@pytest_asyncio.fixture
async def world(place: str) -> AsyncIterator[World]:
    """Give each storage in turn, with people around it."""
    world = MemoryWorld() if place == "memory" else DatabaseWorld(place)
    yield world
    await world.storage.aclose()


@pytest_asyncio.fixture
async def database(database_place: str) -> AsyncIterator[DatabaseWorld]:
    """Give each storage that keeps bytes one can damage."""
    world = DatabaseWorld(database_place)
    yield world
    await world.storage.aclose()
