"""``manage.py wfdash_worker``: run workflows without serving pages (servers beside it have ``WFDASH_EMBED=0``)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from checkpoints.database.direct import name_connections
from wfdash.worker.process import serve_worker


class Command(BaseCommand):
    """A worker process of its own."""

    help = "Run workflows until stopped. Several workers can run at once on PostgreSQL."

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGINT or SIGTERM, then end the process."""
        name_connections("worker")
        try:
            serve_worker(self.stdout.write)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
