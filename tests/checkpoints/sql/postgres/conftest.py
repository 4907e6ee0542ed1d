from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from checkpoints.database.storage import DatabaseStorage


@pytest_asyncio.fixture
async def storage(postgres_alias: str) -> AsyncIterator[DatabaseStorage]:
    storage = DatabaseStorage(postgres_alias)
    yield storage
    await storage.aclose()
