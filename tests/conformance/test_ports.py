from __future__ import annotations

from typing import Any

import pytest

from checkpoints.conformance import CHUNKS, CLAIMS, DAMAGE, FAILURES, JOURNAL, RUNS, STORAGE, WORKER
from checkpoints.conformance.worlds import refused


def name_of(check: Any) -> str:
    """Return a check's name."""
    return str(check.__name__)


@pytest.mark.parametrize("check", STORAGE, ids=name_of)
async def test_storage(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", DAMAGE, ids=name_of)
async def test_damage(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", FAILURES, ids=name_of)
async def test_failures(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", CHUNKS, ids=name_of)
async def test_chunks(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", JOURNAL, ids=name_of)
async def test_journal(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", CLAIMS, ids=name_of)
async def test_claims(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", WORKER, ids=name_of)
async def test_driving(check: Any, world: Any) -> None:
    await check(world)


@pytest.mark.parametrize("check", RUNS, ids=name_of)
async def test_holding(check: Any, world: Any) -> None:
    await check(world)


def test_a_check_shows_the_value_that_a_storage_should_have_refused() -> None:
    said = "^expected ValueError for nan for .*digits, but nothing was raised"
    with pytest.raises(AssertionError, match=said), refused(ValueError, float("nan"), 10**6_000):
        pass
    said = "^the message for 'run' for 7 lacks 'key': no such label"
    with pytest.raises(AssertionError, match=said), refused(ValueError, "run", 7, saying="key"):
        raise ValueError("no such label")
