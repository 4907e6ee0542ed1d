"""Whether this process is about to end: it answers what it has begun, and lets clients go elsewhere for the rest."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


class Stopping:
    """A condition that becomes true once. For any thread; listeners are called in the thread that calls ``begin``."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._listeners: dict[object, Callable[[], object]] = {}

    @property
    def begun(self) -> bool:
        """Whether the process stops."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Say that it stops."""
        self._begun.set()
        for listener in list(self._listeners.values()):
            listener()

    def subscribe(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call ``listener`` when the process begins to stop; returns what takes that back."""
        key = object()
        self._listeners[key] = listener

        def forget() -> None:
            self._listeners.pop(key, None)

        return forget

    async def wait(self) -> None:
        """Return once the process stops."""
        loop, stops = asyncio.get_running_loop(), asyncio.Event()
        forget = self.subscribe(lambda: loop.call_soon_threadsafe(stops.set))
        try:
            if not self.begun:
                await stops.wait()
        finally:
            forget()


async def waited(event: asyncio.Event, seconds: float) -> None:
    """Return once the event is set, or after so many seconds.

    Not by ``asyncio.wait_for``: before Python 3.12 that loses a cancellation which comes at the same moment as the
    event, and what was cancelled continues.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


stopping = Stopping()
"""This process's."""
