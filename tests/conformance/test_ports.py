from __future__ import annotations

from typing import Any

import pytest

from checkpoints.conformance import CHUNKS, CLAIMS, DAMAGE, FAILURES, JOURNAL, RUNS, STORAGE, WORKER
from checkpoints.conformance.worlds import refused

PROMISES = [*STORAGE, *DAMAGE, *FAILURES, *CHUNKS, *JOURNAL, *CLAIMS, *WORKER, *RUNS]


@pytest.mark.parametrize("check", PROMISES, ids=lambda check: check.__name__)
async def test_a_storage_keeps_each_promise(check: Any, world: Any) -> None:
    await check(world)


def test_a_check_shows_the_value_that_a_storage_should_have_refused() -> None:
    said = "^expected ValueError for nan for .*digits.*, but nothing was raised"
    with pytest.raises(AssertionError, match=said), refused(ValueError, float("nan"), 10**6_000):
        pass
    said = "^the message for 'run' for 7 lacks 'key': no such label"
    with pytest.raises(AssertionError, match=said), refused(ValueError, "run", 7, saying="key"):
        raise ValueError("no such label")
