"""A process that runs workflows and serves no pages, until it is asked to end."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from functools import partial

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.database.storage import DatabaseStorage
from wfdash.contract import DEFAULT_QUEUE
from wfdash.engines import catalog
from wfdash.installation.stopping import stopping
from wfdash.pubsub.process import signals
from wfdash.telemetry.error_hook import refuse_broken_hook
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


# -- how a process that drives runs ends: soon, whatever still runs in its threads

DRAIN_SECONDS = 30.0
"""For running steps to end, in a worker process."""
SERVER_DRAIN_SECONDS = 5.0
"""The same in a server that runs workflows: with the rest less than the ten seconds many supervisors wait."""
RELEASE_SECONDS = 4.0
"""For a worker to let go of its runs after that."""
STOP_SECONDS = 7.0
"""For both at least, where there is a database to wait for."""
LEAVE_SECONDS = 2.0
"""For what sends or writes something when the process ends."""


def drain_seconds(default: float) -> float:
    """Return for how long running steps may end when the process is asked to: ``WFDASH_DRAIN``, else ``default``."""
    return default if settings.WFDASH_DRAIN is None else float(settings.WFDASH_DRAIN)


def stop_seconds(drain: float) -> float:
    """Return for how long a worker may take to stop that drains for so long."""
    return max(STOP_SECONDS, drain + RELEASE_SECONDS)


def exit_after(seconds: float, status: int) -> None:
    """End the process with this status then, even if its event loop is blocked until then."""
    impatience = threading.Timer(seconds, os._exit, [status])
    impatience.daemon = True
    impatience.start()


def exit_process(status: int) -> None:
    """End the process, whatever still runs in its threads: a plain function of a step, or a wait for the database.

    Not by ``sys.exit``: Python would wait for its threads, maybe forever, then look through all objects for garbage,
    which takes seconds on a busy machine, and no deadline holds any more while it does. The run of such a step was
    released, and repeats the step where it continues.
    """
    exit_after(LEAVE_SECONDS, status)
    atexit._run_exitfuncs()  # the log's, and those of telemetry, which send what they hold
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
