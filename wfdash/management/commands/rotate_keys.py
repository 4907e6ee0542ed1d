"""``manage.py rotate_keys``: seal everything with the first of ``WFDASH_ENCRYPTION_KEYS``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.errors import CheckpointsError
from checkpoints.fields import current_sealer
from checkpoints.rotation import rotate
from wfdash.desk.finding import forget_content


class Command(BaseCommand):
    """Rotate keys."""

    help = (
        "Encrypt everything with the first of WFDASH_ENCRYPTION_KEYS. Safe to stop and run again, also beside a server."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate, and say how much was."""
        try:
            counts = rotate()
            # What runs are found by is not encrypted: nothing of their content may be left in it.
            forgotten = forget_content() if current_sealer().active else 0
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["verbosity"] > 0:
            told = ", ".join(f"{table} {count}" for table, count in counts.items() if count)
            self.stdout.write(f"Encrypted again: {told or 'nothing, all is under the first key'}")
            if forgotten:
                self.stdout.write(f"Removed {forgotten} words and values that runs were found by")
