from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conftest import close_in
from tests.live.serving import Served
from tests.live.world import OPENED, make_person, make_run, sign_in
from wfdash.web.http import PagesHandler
from wfdash.web.live.database import DatabaseThreads, Limits
from wfdash.web.live.hub import Hub


@pytest.fixture
def run(transactional_db: None) -> str:
    return make_run()


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """The session of someone who may inspect everything."""
    return sign_in(make_person("vera", "viewer"))


@pytest_asyncio.fixture
async def db(transactional_db: None) -> AsyncIterator[DatabaseThreads]:
    """A database thread for the test's own reads and writes: ``await db.call(function, ...)``."""
    reader = DatabaseThreads(1)
    yield reader
    reader.close()


@pytest_asyncio.fixture
async def make_hub(transactional_db: None) -> AsyncIterator[Callable[..., Hub]]:
    hubs: list[Hub] = []

    def make(**limits: float) -> Hub:
        limits = {"frames_per_second": 10_000} | limits  # the tests' client acknowledges every message at once
        hubs.append(Hub(render=row, limits=Limits(**limits)))
        return hubs[-1]

    yield make
    while OPENED:
        await OPENED.pop().disconnect(timeout=60)
    for hub in hubs:
        await hub.close()


def row(event: object, *, inspect: bool) -> str:
    return f"<li>{event.seq} {event.data if inspect else ''}</li>"  # type: ignore[attr-defined]


@pytest.fixture
def handler(transactional_db: None, settings) -> Iterator[PagesHandler]:
    """The whole of Django, in this process."""
    settings.ALLOWED_HOSTS = ["localhost", "testserver"]
    yield (made := PagesHandler())
    close_in(made._threads._pool)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daphne(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> AsyncIterator[Served]:
    """A real daphne in a process of its own."""
    served = Served(tmp_path_factory.mktemp("live"), sqlite_template)
    await served.start()
    yield served
    await served.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def served(daphne: Served) -> Served:
    """That daphne, with a new run: for tests whose loop is their module's."""
    await daphne.renew()
    return daphne
