"""Where engines are put through what they promise."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.conformance.conftest import ON_POSTGRES, make_world
from tests.conformance.worlds import AnyWorld
from tests.people import make_people
from wfdash.engines import catalog


@pytest_asyncio.fixture(params=["sqlite", ON_POSTGRES])
async def engine_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyWorld]:
    """Give each of Django's databases in turn, with people around it."""
    place = make_world(request.param, request, tmp_path)
    yield place
    await place.storage.aclose()


@pytest.fixture
def serve(tmp_path: Path, settings: Any) -> Iterator[Callable[[str], None]]:
    """Return a function that serves a file with this text."""
    make_people()
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], [str(tmp_path / "served_here.py")]

    def put(text: str) -> None:
        (tmp_path / "served_here.py").write_text(text)
        for name in [one for one in sys.modules if one.startswith("served_here")]:
            del sys.modules[name]
        catalog.load.cache_clear()
        catalog.load()

    yield put
    catalog.load.cache_clear()
    sys.modules.pop("served_here", None)
