"""``manage.py work``: drive runs without serving pages (set ``WFDASH_EMBED=0`` for the servers beside it)."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand

from checkpoints.generic import open_storage
from wfdash.runner.worker import Worker


class Command(BaseCommand):
    """A worker process of its own."""

    help = "Drive runs until stopped; several may run at once on PostgreSQL."

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGINT or SIGTERM, then release what is in flight."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        storage = open_storage()
        worker = Worker(storage)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.stop)
        self.stdout.write(f"Driving runs as {worker.name}")
        try:
            await worker.serve()
        finally:
            await storage.aclose()
