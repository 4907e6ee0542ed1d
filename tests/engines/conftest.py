"""Where engines are put through what they promise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conformance.conftest import DATABASES, make_world
from tests.conformance.worlds import AnyWorld


@pytest_asyncio.fixture(params=DATABASES)
async def engine_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyWorld]:
    """Give each of Django's databases in turn, with people around it."""
    place = make_world(request.param, request, tmp_path)
    yield place
    await place.storage.aclose()
