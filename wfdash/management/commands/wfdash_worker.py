"""``manage.py wfdash_worker``: run workflows without serving pages (servers beside it have ``WFDASH_EMBED=0``)."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand

from checkpoints.database.storage import DatabaseStorage
from wfdash.pubsub.process import signals
from wfdash.worker.shutdown import exit_after_timeout, exit_process
from wfdash.worker.worker import Worker


class Command(BaseCommand):
    """A worker process of its own."""

    help = "Run workflows until stopped. Several workers can run at once on PostgreSQL."

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGINT or SIGTERM, then release what is in progress and end the process.

        It does not wait for synchronous step functions: the process ends while they run.
        """
        with asyncio.Runner() as runner:
            runner.run(self._work())
            # Not by ``asyncio.run``: it waits for every thread, as long as it takes.
            exit_process(0)

    async def _work(self) -> None:
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
        self.stdout.write(f"Worker {worker.name} started")
        try:
            await worker.serve()
        finally:
            await storage.aclose()
