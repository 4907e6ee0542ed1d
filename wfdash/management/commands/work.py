"""``manage.py work``: drive runs without serving pages (set ``WFDASH_EMBED=0`` for the servers beside it)."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand

from checkpoints.database.storage import DatabaseStorage
from wfdash.worker.shutdown import exit_after_timeout, exit_process
from wfdash.worker.worker import Worker


class Command(BaseCommand):
    """A worker process of its own."""

    help = "Run workflows until stopped. Several workers can run at once on PostgreSQL."

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGINT or SIGTERM, then release what is in flight and end the process.

        A plain function of a step that still runs does not hold it: the process ends under it.
        """
        with asyncio.Runner() as runner:
            runner.run(self._work())
            # Not by the runner: it waits for every thread, as long as it takes.
            exit_process(0)

    async def _work(self) -> None:
        storage = DatabaseStorage()
        worker = Worker(storage)
        loop = asyncio.get_running_loop()

        def stop(*_: object) -> None:
            exit_after_timeout(0)
            loop.call_soon_threadsafe(worker.stop)

        for number in (signal.SIGINT, signal.SIGTERM):
            # Not the loop's own way: a step that blocks it would keep the signal from being heard.
            signal.signal(number, stop)
        self.stdout.write(f"Worker {worker.name} started")
        try:
            await worker.serve()
        finally:
            await storage.aclose()
