"""``manage.py demo``: add demo people and demo runs. Safe to run again."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from wfdash.demo import seed


class Command(BaseCommand):
    """Seed the demo."""

    help = "Add demo people, a demo git repository and demo runs. Existing ones are kept."

    def handle(self, *args: Any, **options: Any) -> None:
        """Seed, and say what was added."""
        added = seed(settings.WFDASH_DATA_DIR)
        if options["verbosity"] > 0:
            self.stdout.write(f"People added: {', '.join(added.people) or 'none'}")
            self.stdout.write(f"Runs started: {len(added.runs)}")
            self.stdout.write(f"Demo repository: {added.repository}")
