"""Hints: *a worker should look at run R*. What carries them is a port: signals, a queue in the database, or a broker.

A hint carries no truth: it may be lost, doubled, late or of a run that is not due. The claim decides who executes a
run, and workers look for due runs each second, those that may be seldom every three.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from hashlib import md5
from typing import Any, ParamSpec, Protocol

from django.conf import settings

from checkpoints.database.alias import on_commit
from wfdash import pubsub
from wfdash.pubsub.process import signals
from wfdash.pubsub.topics import Topic

LONGEST_NAME = 36
"""Bytes of a workflow's name in its queue's: Procrastinate notifies by a channel named after that, of 63 at most."""


def queue_of(workflow: str) -> str:
    """Return the name of the queue with a workflow's runs."""
    name = workflow.encode()
    return "run:" + (workflow if len(name) <= LONGEST_NAME else md5(name, usedforsecurity=False).hexdigest())


P = ParamSpec("P")


class HintedWorker(Protocol):
    """A worker, as hints see it; its methods are called on its event loop."""

    @property
    def workflows(self) -> Sequence[str]:
        """The names of those of which it takes runs."""

    def look_at(self, run: str) -> None:
        """Claim the run soon if it is due; if it is executed here, let it look for answers."""

    def wake(self, run: str) -> None:
        """If the run is executed here, let it look for answers, or for its end."""

    def take(self, run: str) -> Coroutine[Any, Any, None]:
        """Claim the run if it is due and begin to execute it; returns once that is done."""


class Hints(Protocol):
    """What carries hints from actions to workers."""

    def send(self, *runs: str) -> None:
        """Hint at runs, each in its own priority, once the caller's transaction is committed; never if it is not."""

    @property
    def are_all_heard(self) -> bool:
        """Whether this process hears at this moment of every run that becomes due, as far as that can be known."""

    async def serve(self, worker: HintedWorker, stopping: asyncio.Event) -> None:
        """Give the worker what it is to look at until ``stopping`` is set, then wake what it still executes.

        Runs until it is cancelled: an outage of the carrier does not end it.
        """


def subscribe(listener: Callable[P, None], topic: Topic[P]) -> Callable[[], None]:
    """Call the listener on the running loop with what is published; return what ends that."""
    loop = asyncio.get_running_loop()

    def hand_over(*args: P.args, **kwargs: P.kwargs) -> None:
        loop.call_soon_threadsafe(partial(listener, *args, **kwargs))

    return topic.subscribe(hand_over)


def signal(*runs: str) -> None:
    """Signal the runs once the caller's transaction is committed."""

    def publish() -> None:
        for run in runs:
            pubsub.runs_due.publish(run)

    on_commit(publish)


class SignalledHints:
    """Hints by ``pubsub.runs_due``, the default: every worker hears each, and the first claim wins."""

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


def current_hints() -> Hints:
    """Return what the settings say."""
    if settings.WFDASH_HINTS == "procrastinate":
        from wfdash.pubsub.hints.queued import QueuedHints

        return QueuedHints()
    if settings.WFDASH_HINTS == "celery":
        from wfdash.pubsub.hints.brokered import BrokeredHints

        return BrokeredHints()
    return SignalledHints()
