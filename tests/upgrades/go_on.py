"""Brings the dashboard's database of an older version up to date, and its runs to their ends. Says what became of them.

``python -m tests.upgrades.go_on``, with ``WFDASH_DATA`` as for the dashboard.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Migrate, answer what is asked until nothing is, and print each run by its title."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "wfdash.settings"
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from checkpoints.models import Run
    from tests import driving
    from tests.upgrades.flow import flow
    from wfdash.access.viewer import viewer_for
    from wfdash.engines import catalog

    call_command("migrate", verbosity=0)
    driving.put(catalog.load(), flow)
    ana = viewer_for(User.objects.get(username="ana"))
    told = {run.title: finished(run, ana) for run in Run.objects.order_by("created")}
    sys.stdout.write(json.dumps(told))


def finished(run: Any, viewer: Any) -> dict[str, Any]:
    """Answer until nothing is asked; returns how often that was, and what the run is then."""
    from tests import driving
    from wfdash.actions.requests.answer import answer_request

    answered = 0
    while asked := driving.pending(run):
        for request in asked.values():
            answer_request(viewer, request.pk, {"action": "approve"})
            answered += 1
        driving.drive(run)
    run.refresh_from_db()
    readable = all(checkpoint.intact for checkpoint in run.checkpoints.all())
    return {"answered": answered, "phase": run.phase, "output": run.output, "readable": readable}


if __name__ == "__main__":
    main()
