"""The project, served by daphne as its command does, once its tables are made and ana is there.

Its one argument is the port. One process instead of four: each loads all of Django.
"""

# ruff: noqa: E402, models are there once Django is set up
from __future__ import annotations

import sys

import django
from daphne.cli import CommandLineInterface

django.setup()

from django.core.management import call_command
from django.db import connections

from tests.embedding.shop.models import Person

for name in connections:
    call_command("migrate", database=name, verbosity=0)
Person.objects.create_user("ana@example.org", "of the shop", is_superuser=True)
connections.close_all()
CommandLineInterface().run(["--bind", "127.0.0.1", "--port", sys.argv[1], "tests.embedding.asgi:application"])
