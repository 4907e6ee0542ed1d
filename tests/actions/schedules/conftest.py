from __future__ import annotations

from collections.abc import Iterator

import pytest

from wfdash.engines import catalog


@pytest.fixture(autouse=True)
def _paper_catalog(settings) -> Iterator[None]:
    settings.WFDASH_ENGINES = ["tests.pages.paper.PaperEngine", "wfdash.engines.native.NativeEngine"]
    settings.WFDASH_APPS = ["tests.pages.served"]
    settings.WFDASH_WORKFLOWS = []
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()
