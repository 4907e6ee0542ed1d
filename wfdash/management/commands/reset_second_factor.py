"""``manage.py reset_second_factor USER``: let a person who lost their device sign in without a code."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.database.installation_key import refuse_other_keys
from checkpoints.models.user_model import User, has_name
from wfdash.access.signin import second_factor


class Command(BaseCommand):
    """Remove a person's second factor and recovery codes."""

    help = "Remove a person's second factor and recovery codes."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the user name."""
        parser.add_argument("user")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        """Reset it, or say that there is none."""
        refuse_other_keys(CommandError)
        person = User.objects.filter(has_name(user)).first()
        if person is None:
            raise CommandError(f"No user named {user!r}")
        if not second_factor.reset(person):
            raise CommandError(f"{user} has no second factor")
        self.stdout.write(f"Removed the second factor of {user}")
