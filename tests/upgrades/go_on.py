"""Brings the database of an older version up to date, and its runs to their ends. Says what became of them.

``python -m tests.upgrades.go_on``, with ``WFDASH_DATA`` as for the dashboard.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tests.upgrades.make import APPROVE, PASSWORD


def main() -> None:
    """Migrate, sign in, answer what is asked until nothing is, and print each run by its title."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "wfdash.settings"
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from checkpoints.models import Run
    from tests import driving
    from tests.upgrades.flow import flow
    from wfdash.access.viewer import viewer_for
    from wfdash.engines import catalog

    call_command("migrate", verbosity=0)
    driving.put(catalog.load(), flow)
    client = Client(HTTP_HOST="localhost")
    client.post("/sign-in/", {"username": "ana", "password": PASSWORD})
    ana, runs = viewer_for(User.objects.get(username="ana")), Run.objects.order_by("created")
    pages = ["/", "/runs/", *(f"/runs/{run.pk}/" for run in runs)]
    told = {"pages": [client.get(page).status_code for page in pages]}
    sys.stdout.write(json.dumps(told | {run.title: finished(run, ana) for run in runs}))


def finished(run: Any, viewer: Any) -> dict[str, Any]:
    """Answer until nothing is asked; returns how often that was, and what the run is then."""
    from tests import driving
    from wfdash.actions.requests.answer import answer_request

    answered = 0
    while asked := driving.pending(run):
        for request in asked.values():
            answer_request(viewer, request.pk, APPROVE)
            answered += 1
        driving.drive(run)
    run.refresh_from_db()
    readable = all(checkpoint.intact for checkpoint in run.checkpoints.all())
    return {"answered": answered, "phase": run.phase, "output": run.output, "readable": readable}


if __name__ == "__main__":
    main()
