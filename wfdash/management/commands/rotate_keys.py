"""``manage.py rotate_keys``: encrypt everything with the first of ``WFDASH_ENCRYPTION_KEYS``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.database.installation_key import rotate
from checkpoints.errors import CheckpointsError
from checkpoints.models.fields import current_encryptor
from wfdash.actions.runs.search_index import remove_content

NAMED = 20
"""Rows that could not be read, of which the command names so many."""
NOT_FINISHED = (
    "Not finished: keep every key in the list. {count} values could not be re-encrypted, all others were:\n{named}\n"
    "Add the keys that are named, or restore these rows from a backup, then run rotate_keys again"
)


class Command(BaseCommand):
    """Rotate keys."""

    help = (
        "Encrypt everything with the first of WFDASH_ENCRYPTION_KEYS. Can be interrupted and repeated, and "
        "run alongside a server. What cannot be read is named at the end, with status 1."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rotate the keys, and print how much was rotated."""
        try:
            rotation = rotate()
            # Search attributes are not encrypted: nothing of the content may be left in them.
            forgotten = remove_content() if current_encryptor().active else 0
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["verbosity"] > 0:
            summary = ", ".join(f"{table} {count}" for table, count in rotation.counts.items() if count)
            self.stdout.write(f"Re-encrypted: {summary or 'nothing, everything uses the first key'}")
            if forgotten:
                self.stdout.write(f"Removed {forgotten} search terms of runs")
        if rotation.left:
            named = "\n".join(rotation.left[:NAMED])
            raise CommandError(NOT_FINISHED.format(count=len(rotation.left), named=named))
