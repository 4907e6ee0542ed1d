"""A process that runs workflows and serves no pages, until it is asked to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from checkpoints.database.storage import DatabaseStorage
from wfdash.pubsub.process import signals
from wfdash.worker.shutdown import exit_after_timeout, exit_process
from wfdash.worker.worker import Worker


def serve_worker(say: Callable[[str], None]) -> None:
    """Run workflows until SIGINT or SIGTERM, then release what is in progress and end the process.

    It does not wait for synchronous step functions: the process ends while they run.
    """
    with asyncio.Runner() as loop:
        loop.run(_serve(say))
        # Not by ``asyncio.run``: it waits for every thread, as long as it takes.
        exit_process(0)


async def _serve(say: Callable[[str], None]) -> None:
    signals.start()
    storage = DatabaseStorage()
    worker = Worker(storage)
    loop = asyncio.get_running_loop()

    def stop(*_: object) -> None:
        exit_after_timeout(0)
        loop.call_soon_threadsafe(worker.stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        # Not by ``loop.add_signal_handler``: a step that blocks the loop would delay the signal.
        signal.signal(number, stop)
    say(f"Worker {worker.name} started")
    try:
        await worker.serve()
    finally:
        await storage.aclose()
