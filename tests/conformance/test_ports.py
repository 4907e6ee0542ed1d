from __future__ import annotations

from typing import Any

import pytest

from checkpoints.conformance import CHUNKS, CLAIMS, DAMAGE, DRIVING, JOURNAL, STORAGE


def name_of(check: Any) -> str:
    """Return a check's name."""
    return str(check.__name__)


@pytest.mark.parametrize("check", STORAGE, ids=name_of)
async def test_storage(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", DAMAGE, ids=name_of)
async def test_damage(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", CHUNKS, ids=name_of)
async def test_chunks(check: Any, chunked: Any) -> None:
    await check(chunked)


@pytest.mark.parametrize("check", JOURNAL, ids=name_of)
async def test_journal(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", CLAIMS, ids=name_of)
async def test_claims(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", DRIVING, ids=name_of)
async def test_driving(check: Any, world: Any) -> None:
    await check(world)
