"""A saver on each database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def alias(request: pytest.FixtureRequest) -> str:
    """Name each database in turn."""
    return str(request.getfixturevalue(f"{request.param}_alias"))


@pytest_asyncio.fixture
async def saver(alias: str) -> AsyncIterator[Any]:
    from checkpoints.langgraph import DjangoSaver

    async with DjangoSaver(using=alias) as saver:
        yield saver
