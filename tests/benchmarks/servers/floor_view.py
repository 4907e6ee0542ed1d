"""The floor of an answer: a bare Django under daphne whose one view reads a row by its key and stores another, durably.

``python floor_view.py PORT FOLDER``; GET makes no row, POST makes one.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Importing this installs Twisted's asyncio reactor; nothing may use the reactor before.
from daphne.server import Server  # isort: skip
from daphne.endpoints import build_endpoint_description_strings
from django.conf import settings
from django.urls import path


def configure(folder: Path) -> None:
    """Set Django up with two tables of its own."""
    import django
    from django.db import connection

    options = {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"}
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "floor.sqlite3", "CONN_MAX_AGE": 60}
    settings.configure(
        USE_TZ=False,
        ALLOWED_HOSTS=["127.0.0.1"],
        DATABASES={"default": {**database, "OPTIONS": options}},
        ROOT_URLCONF=__name__,
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.sessions"],
        SECRET_KEY="floor",
    )
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    connection.close()


def view(request):
    """Return how many characters the row that was read holds."""
    from datetime import datetime

    from django.contrib.contenttypes.models import ContentType
    from django.contrib.sessions.models import Session
    from django.http import HttpResponse

    kind = ContentType.objects.get(pk=1)
    if request.method == "POST":
        Session.objects.create(session_key=request.POST["key"], session_data="x", expire_date=datetime(2030, 1, 1))
    return HttpResponse(str(len(kind.model)))


def main() -> None:
    """Serve until the process is ended."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    configure(folder)
    from django.core.asgi import get_asgi_application

    endpoints = build_endpoint_description_strings(host="127.0.0.1", port=port)
    Server(application=get_asgi_application(), endpoints=endpoints, action_logger=None).run()


urlpatterns = [path("", view)]

if __name__ == "__main__":
    main()
