"""What a drive sleeps by until something happens."""

from __future__ import annotations

import asyncio


class Wakeup:
    """A flag that one coroutine of an event loop waits for. Setting it costs a fraction of ``asyncio.Event``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self.is_set = False

    def set(self) -> None:
        """Set the flag. In the thread of the loop."""
        self.is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        """Take the flag back."""
        self.is_set = False

    async def wait(self, seconds: float | None = None) -> None:
        """Return once the flag is set, or after so many seconds."""
        if self.is_set or (seconds is not None and seconds <= 0):
            return
        waiter = self._waiter = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, resolve, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()


def resolve(waiter: asyncio.Future[None]) -> None:
    """Let a coroutine continue that waits, unless it does already."""
    if not waiter.done():
        waiter.set_result(None)
