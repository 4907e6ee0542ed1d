"""Hints as signals: every worker hears each, and the first claim wins. The default."""

from __future__ import annotations

import asyncio

from wfdash import pubsub
from wfdash.hints import HintedWorker, signal, subscribe
from wfdash.pubsub.process import signals


class SignalledHints:
    """Hints by ``pubsub.runs_due``."""

    def send(self, *runs: str) -> None:
        """Signal the runs once the caller's transaction is committed."""
        signal(*runs)

    @property
    def are_all_heard(self) -> bool:
        """Whether signals of other processes arrive."""
        return signals.arrive

    async def serve(self, worker: HintedWorker, stopping: asyncio.Event) -> None:
        """Let the worker look at each run that is signalled."""
        leave = subscribe(worker.look_at, pubsub.runs_due)
        try:
            # A worker that ends has no room; what it executes is still woken.
            await asyncio.Event().wait()
        finally:
            leave()
