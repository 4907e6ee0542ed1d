from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import pytest

from wfdash import pubsub
from wfdash.web.api import long_poll
from wfdash.web.api.long_poll import LongPolls, Poll


@dataclass(frozen=True, kw_only=True)
class Found:
    n: int
    poll: Poll | None = None


def waiting(n: int = 0, seconds: float = 5) -> Found:
    return Found(n=n, poll=Poll(run="r", seconds=seconds))


async def test_a_change_of_the_run_ends_the_wait_at_once() -> None:
    looked = []

    async def again() -> Found:
        looked.append(1)
        return Found(n=1)

    asyncio.get_running_loop().call_later(0.05, pubsub.runs_changed.publish, "r", 7)
    began = time.monotonic()
    assert (await LongPolls[Found]().until_final(waiting(), again, lambda: False)).n == 1
    assert time.monotonic() - began < 0.9
    assert looked == [1]


async def test_without_news_it_looks_again_by_itself_until_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_poll, "LOOKS", (0.02,))
    looked = []

    async def again() -> Found:
        looked.append(1)
        return waiting(len(looked))

    found = await LongPolls[Found]().until_final(waiting(seconds=0.2), again, lambda: False)
    assert found.n == len(looked) > 2


async def test_a_client_that_has_left_is_not_waited_for() -> None:
    async def again() -> Found:
        raise AssertionError

    assert (await LongPolls[Found]().until_final(waiting(), again, lambda: True)).n == 0


async def test_no_more_than_so_many_wait() -> None:
    async def again() -> Found:
        raise AssertionError

    assert (await LongPolls[Found](most=0).until_final(waiting(), again, lambda: False)).n == 0


async def test_what_waited_leaves_nothing_behind() -> None:
    async def again() -> Found:
        return Found(n=1)

    before = len(pubsub.runs_changed._subscribers)
    polls = LongPolls[Found](most=1)
    for _ in range(3):
        asyncio.get_running_loop().call_later(0.01, pubsub.runs_changed.publish, "r", 7)
        assert (await polls.until_final(waiting(), again, lambda: False)).n == 1
    assert len(pubsub.runs_changed._subscribers) == before
