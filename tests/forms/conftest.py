from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from wfdash.engines import catalog


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """One event loop for thousands of small runs."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(autouse=True)
def _catalog_of_answers(settings) -> Iterator[None]:
    settings.WFDASH_ENGINES = ["wfdash.engines.native.NativeEngine"]
    settings.WFDASH_APPS = ["tests.forms.served"]
    settings.WFDASH_WORKFLOWS = []
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()
