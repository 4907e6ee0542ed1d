"""The ways in which the reader of a stream leaves it, for streams of this library and of others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

ENDINGS = ("break", "exception", "timeout", "cancellation", "sibling", "garbage collection")
READ = 3
"""Events that are read before."""


class Stop(Exception):
    """What a reader raises."""


async def leave(ending: str, events: AsyncIterator[Any]) -> None:
    """Read a few events, then leave the loop like this. The caller must not hold the iterator."""
    if ending == "break":
        await _broken(events, lambda: None)
    elif ending == "exception":
        with suppress(Stop):
            await _broken(events, _stop)
    elif ending == "timeout":
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await _hung(events, asyncio.Event())
    elif ending == "garbage collection":
        for _ in range(READ):
            await anext(events)
    else:
        await _cancelled(ending, [events])
    del events
    gc.collect()


async def _broken(events: AsyncIterator[Any], act: Any) -> None:
    read = 0
    async for _ in events:
        read += 1
        if read == READ:
            act()
            break


def _stop() -> None:
    raise Stop


async def _hung(events: AsyncIterator[Any], reached: asyncio.Event) -> None:
    read = 0
    async for _ in events:
        read += 1
        if read == READ:
            reached.set()
            await asyncio.sleep(60)


async def _cancelled(ending: str, events: list[AsyncIterator[Any]]) -> None:
    reached = asyncio.Event()
    if ending == "cancellation":
        task = asyncio.create_task(_hung(events.pop(), reached))
        await reached.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(_hung(events.pop(), reached))
            await reached.wait()
            raise Stop
