from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from checkpoints.database import direct
from wfdash.domain.errors import Busy
from wfdash.web import page_threads
from wfdash.web.page_threads import PageThreads
from wfdash.web.pages.site import health


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_threads, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(page_threads, "HANGING_SECONDS", 0.1)


@pytest.fixture
def standing() -> threading.Event:
    """Let work stand until it is set."""
    return threading.Event()


async def hang(threads: PageThreads, until: threading.Event, many: int = 1) -> list[asyncio.Task[bool]]:
    """Let so many threads stand, and return once all are counted."""
    tasks = [asyncio.create_task(threads.begin("/stuck/", until.wait, 30)) for _ in range(many)]
    async with asyncio.timeout(20):
        while threads.hanging < many:
            await asyncio.sleep(0.01)
    return tasks


async def test_a_thread_that_hangs_is_named_with_its_place_and_counted_until_it_ends(
    hurry: None, standing: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    threads = PageThreads(2)
    with caplog.at_level(logging.WARNING, "wfdash.web.page_threads"):
        (task,) = await hang(threads, standing)
        assert await threads.begin("/other/", lambda: 5) == 5
    standing.set()
    await task
    async with asyncio.timeout(20):
        while threads.hanging:
            await asyncio.sleep(0.01)
    (said,) = caplog.messages
    assert "/stuck/" in said
    assert "wait (" in said
    assert "threading.py:" in said


async def test_a_thread_whose_client_has_left_stays_counted(hurry: None, standing: threading.Event) -> None:
    threads = PageThreads(2)
    (task,) = await hang(threads, standing)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(10):
        await asyncio.sleep(0.02)
        assert threads.hanging == 1
    standing.set()


async def test_while_all_threads_hang_nothing_new_begins_and_half_of_them_are_not_ready(
    hurry: None, standing: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, began = PageThreads(2), []
    monkeypatch.setattr(health._process, "threads", threads)
    tasks = await hang(threads, standing, many=1)
    assert "FAILED threads: 1 of 2 hang" in map(str, health._check_itself())
    tasks += await hang(threads, standing, many=2)
    with pytest.raises(Busy):
        await threads.begin("/new/", began.append, 1)
    standing.set()
    await asyncio.gather(*tasks)
    assert began == []


async def test_a_request_that_gets_no_thread_in_time_is_refused_and_never_begins(
    standing: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_threads, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(page_threads, "DEADLINE_SECONDS", 0.1)
    threads, began = PageThreads(1), []
    first = asyncio.create_task(threads.begin("/long/", standing.wait, 30))
    rest = asyncio.create_task(threads.proceed("/export/", began.append, "piece"))
    await asyncio.sleep(0)  # both are in the queue now
    with pytest.raises(Busy):
        await threads.begin("/new/", began.append, "request")
    standing.set()
    await asyncio.gather(first, rest)
    assert began == ["piece"]


async def test_long_work_that_does_not_wait_for_the_database_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_threads, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(page_threads, "DEADLINE_SECONDS", 0.1)

    def work() -> float | None:
        time.sleep(0.3)
        return direct.patience.left

    assert await PageThreads(1).begin("/long/", work) == pytest.approx(page_threads.LEAST_SECONDS)


async def test_what_it_waits_for_the_database_counts_from_its_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_threads, "LEAST_SECONDS", 0.0)
    threads = PageThreads(1)
    first = asyncio.create_task(threads.begin("/slow/", time.sleep, 0.3))
    await asyncio.sleep(0)
    left = await threads.begin("/next/", lambda: direct.patience.left)
    await first
    assert left is not None
    assert left < page_threads.DEADLINE_SECONDS - 0.2
