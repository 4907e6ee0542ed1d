"""Long polling: a GET that waits until there is something to say, without keeping a thread.

A view that has nothing to say yet asks for it with ``say_later``. The HTTP handler then waits until the run changes (or
for a moment: another process may have changed it) and makes the same request again, with all checks of rights.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Generic, Protocol, TypeVar

from django.http import HttpRequest

from checkpoints.records import frozen
from wfdash import pubsub
from wfdash.installation.stopping import stopping, waited

MAX_WAIT_SECONDS = 60
"""Seconds that a request may wait."""
LOOKS = (1.0, 1.0, 2.0, 3.0)
"""Seconds after which to look again where no one in this process has said that the run has changed; then the last."""
REST_SECONDS = 0.1
"""Seconds between a change and the look at it: a run that changes quickly is not looked at each time."""
MAX_WAITING_REQUESTS = 200
"""Requests that wait at the same time; more are answered at once."""
ATTRIBUTE = "wfdash_poll"


@frozen
class Poll:
    """What a request waits for: a change of this run, for so many seconds from its first look."""

    run: str
    seconds: float


def say_later(request: HttpRequest, run: str, seconds: float) -> None:
    """Ask the HTTP handler to make this request again when the run has changed. Servers without it answer at once."""
    setattr(request, ATTRIBUTE, Poll(run=run, seconds=min(seconds, MAX_WAIT_SECONDS)))


def poll_of(request: HttpRequest) -> Poll | None:
    """Return what the answered request waits for, None if it has its final response."""
    return getattr(request, ATTRIBUTE, None)


class HasPoll(Protocol):
    """A response that may not be final."""

    @property
    def poll(self) -> Poll | None:
        """What it waits for, None for a final one."""


R = TypeVar("R", bound=HasPoll)


class LongPolls(Generic[R]):
    """The requests of one process that wait."""

    def __init__(self, most: int = MAX_WAITING_REQUESTS) -> None:
        self._most, self._count = most, 0

    async def until_final(self, found: R, again: Callable[[], Awaitable[R]], gone: Callable[[], bool]) -> R:
        """Return the first response without a poll, or the last one before its time is up or the process stops.

        ``again`` makes the request again; ``gone`` says whether the client has left.
        """
        poll = found.poll
        if poll is None or self._count >= self._most:
            return found
        self._count += 1
        try:
            end = time.monotonic() + poll.seconds
            with _Changes(poll.run) as changes:
                looks = chain(LOOKS, repeat(LOOKS[-1]))
                while poll is not None and not (gone() or stopping.begun) and (left := end - time.monotonic()) > 0:
                    await changes.wait(min(left, next(looks)))
                    found = await again()
                    poll = found.poll
        finally:
            self._count -= 1
        return found


class _Changes:
    """Says when a run has changed. Subscribed before the look that it follows, so that no change is missed."""

    def __init__(self, run: str) -> None:
        self._run, self._changed = run, asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> _Changes:
        self._leave = pubsub.runs_changed.subscribe(self._note)
        self._forget = stopping.subscribe(lambda: self._loop.call_soon_threadsafe(self._changed.set))
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()
        self._forget()

    def _note(self, run: str, seq: int) -> None:
        if run == self._run:
            self._loop.call_soon_threadsafe(self._changed.set)

    async def wait(self, seconds: float) -> None:
        """Return after a change, or after so many seconds."""
        await waited(self._changed, seconds)
        if self._changed.is_set():
            await asyncio.sleep(REST_SECONDS)
        self._changed.clear()
