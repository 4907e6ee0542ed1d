"""Reads a viewer's rights again while they watch: after a change that may concern them, and every minute."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator

from wfdash import pubsub
from wfdash.installation.stopping import waited
from wfdash.live.hub import Hub


def keep_going() -> None:
    """Check nothing else."""


class Guard:
    """``read`` returns the key of the person, or raises what ends the watching."""

    def __init__(self, hub: Hub, read: Callable[[], Awaitable[Hashable]]) -> None:
        self._hub, self._limits, self._read = hub, hub.limits, read
        self._person: Hashable = None
        self._look_again = asyncio.Event()

    @contextlib.contextmanager
    def listening(self, person: Hashable) -> Iterator[None]:
        """Hear of changes of this person's rights in the meantime."""
        self._person = person
        stop_listening = pubsub.rights_changed.subscribe(self._rights_moved)
        try:
            yield
        finally:
            stop_listening()

    async def watch(self, check: Callable[[], None] = keep_going) -> None:
        """Read the rights from time to time until that raises; ``check`` is called more often, and may raise too."""
        due = self._next_look()
        while True:
            await waited(self._look_again, min(self._limits.tick, self._limits.recheck_every))
            check()
            if self._look_again.is_set() or time.monotonic() >= due:
                self._look_again.clear()
                await self._read()
                due = self._next_look()

    def _rights_moved(self, who: int | None) -> None:
        """Handle a change of rights, in any thread. Changes that concern everyone are checked one viewer after the
        other.
        """
        if who in (None, self._person):
            late = 0.0 if who is not None else random.uniform(0, self._limits.spread)  # noqa: S311
            self._hub.loop.call_soon_threadsafe(self._hub.loop.call_later, late, self._look_again.set)

    def _next_look(self) -> float:
        # At a random moment, or all who came at once would be checked at once, minute by minute.
        return time.monotonic() + self._limits.recheck_every * random.uniform(0.5, 1)  # noqa: S311
