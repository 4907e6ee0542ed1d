"""``manage.py rotate_keys``: seal everything with the first of ``WFDASH_ENCRYPTION_KEYS``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.errors import CheckpointsError
from checkpoints.rotation import rotate


class Command(BaseCommand):
    """Rotate keys."""

    help = (
        "Encrypt everything with the first of WFDASH_ENCRYPTION_KEYS. Safe to stop and run again, also beside a server."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate, and say how much was."""
        try:
            counts = rotate()
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["verbosity"] > 0:
            told = ", ".join(f"{table} {count}" for table, count in counts.items() if count)
            self.stdout.write(f"Encrypted again: {told or 'nothing, all is under the first key'}")
