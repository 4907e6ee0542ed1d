"""``manage.py wfdash_worker``: run workflows without serving pages (servers beside it have ``WFDASH_EMBED=0``)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.database.direct import name_connections
from checkpoints.database.installation_key import check_keys
from wfdash.installation.environment import add_worker_options
from wfdash.worker.process import refuse_hold, serve_worker


class Command(BaseCommand):
    """A worker process of its own."""

    help = "Run workflows until stopped. Several workers can run at once on PostgreSQL."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--limit``, ``--workflows`` and ``--queues``."""
        add_worker_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Work until SIGINT or SIGTERM, then end the process."""
        name_connections("worker")
        try:
            refuse_hold()
            check_keys()
            serve_worker(
                self.stdout.write, limit=options["limit"], workflows=options["workflows"], queues=options["queues"]
            )
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
