"""A process that runs workflows and serves no pages, until it is asked to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection
from functools import partial

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.database.storage import DatabaseStorage
from wfdash import catalog
from wfdash.contract.placement import DEFAULT_QUEUE
from wfdash.installation.stopping import stopping
from wfdash.pubsub.process import signals
from wfdash.telemetry.error_hook import refuse_broken_hook
from wfdash.worker.shutdown import DRAIN_SECONDS, drain_seconds, exit_after, exit_process, stop_seconds
from wfdash.worker.worker import Worker


def serve_worker(
    say: Callable[[str], None],
    *,
    limit: int | None = None,
    workflows: Collection[str] = (),
    queues: Collection[str] = (),
) -> None:
    """Run workflows until SIGINT or SIGTERM, then let running steps end for a while, release all and end the process.

    A second signal ends it at once. A synchronous step function that takes longer does not hold it.
    ``ImproperlyConfigured`` where ``WFDASH_HOLD`` forbids it, one of the ``workflows`` is not loaded, or no workflow
    names one of the ``queues``. Those and ``limit``: see ``Worker``.
    """
    refuse_hold()
    refuse_broken_hook()
    check_served(workflows or settings.WFDASH_SERVES, queues or settings.WFDASH_QUEUES)
    with asyncio.Runner() as loop:
        loop.run(_serve(say, limit, workflows, queues))
        # Not by ``asyncio.run``: it waits for every thread, as long as it takes.
        exit_process(0)


def refuse_hold() -> None:
    """``ImproperlyConfigured`` where ``WFDASH_HOLD`` forbids to run workflows; asks no database."""
    if settings.WFDASH_HOLD:
        raise ImproperlyConfigured("WFDASH_HOLD=1: this copy runs no workflow and sends nothing. Remove it to do so")


def check_served(workflows: Collection[str], queues: Collection[str]) -> None:
    """``ImproperlyConfigured`` where a worker would wait for runs of what is not loaded here: a name that is wrong."""
    loaded = catalog.load().entries
    if missing := ", ".join(sorted({*workflows} - loaded.keys())):
        raise ImproperlyConfigured(
            f"Not loaded here: {missing}. --workflows (WFDASH_SERVES) takes: {', '.join(sorted(loaded))}"
        )
    named = {DEFAULT_QUEUE, *(entry.description.queue for entry in loaded.values())}
    if unknown := ", ".join(sorted({*queues} - named)):
        raise ImproperlyConfigured(
            f"No workflow that is loaded here names this queue: {unknown}. --queues (WFDASH_QUEUES) takes:"
            f" {', '.join(sorted(named))}"
        )


async def _serve(
    say: Callable[[str], None], limit: int | None, workflows: Collection[str], queues: Collection[str]
) -> None:
    signals.start()
    storage = DatabaseStorage()
    worker = Worker(storage, limit=limit, workflows=workflows, queues=queues, among_others=True, publishes=True)
    loop = asyncio.get_running_loop()

    drains = iter((drain_seconds(DRAIN_SECONDS),))

    def stop(*_: object) -> None:
        drain = next(drains, 0.0)
        exit_after(stop_seconds(drain), 0)
        loop.call_soon_threadsafe(stopping.begin)
        loop.call_soon_threadsafe(partial(worker.stop, drain=drain))

    for number in (signal.SIGINT, signal.SIGTERM):
        # Not by ``loop.add_signal_handler``: a step that blocks the loop would delay the signal.
        signal.signal(number, stop)
    say(f"Worker {worker.name} started")
    try:
        await worker.serve()
    finally:
        await storage.aclose()
