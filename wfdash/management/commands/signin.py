"""``manage.py signin USER``: print a one-time sign-in link."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.database.installation_key import refuse_other_keys
from checkpoints.models.user_model import User, has_name
from wfdash.access.signin.links import create_link
from wfdash.installation.location import noted_address


class Command(BaseCommand):
    """Print a link that signs a person in once."""

    help = "Print a one-time sign-in link for a person."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the user name and the dashboard's address."""
        parser.add_argument("user")
        parser.add_argument("--base", default="", help="address of the dashboard (default: the last known one)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the link, or that there is no such person."""
        refuse_other_keys(CommandError)
        user = User.objects.filter(has_name(options["user"]), is_active=True).first()
        if user is None:
            remedy = f"'wfdash person list' names those there are, 'wfdash person add {options['user']}' adds one"
            raise CommandError(f"There is no active person named {options['user']!r}: {remedy}")
        self.stdout.write(
            create_link(user, base=options["base"] or noted_address(settings.WFDASH_DATA_DIR, os.environ))
        )
