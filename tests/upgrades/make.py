"""Makes the database of a dashboard in which a team has worked, as SQL beside this module.

``python -m tests.upgrades.make`` in a checkout of the version that is to be upgraded from. What is here was made by the
last one before the migrations became one: it had 30 of them.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

DUMP = Path(__file__).parent / "dashboard.sql.gz"
WAITING, ASKED_AGAIN, DONE = "waits-for-the-first", "waits-for-the-second", "has-ended"
APPROVE = {"action": "approve"}
AUDIT_KEY = "a key for the audit of these tests"
PASSWORD = "correct horse battery staple"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="wfdash.settings", WFDASH_DATA=folder, WFDASH_AUDIT_KEY=AUDIT_KEY)
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        make_runs()
        dump(Path(folder) / "wfdash.sqlite3")


def make_runs() -> None:
    """Let ana, who may do everything, bring three runs as far as their titles say."""
    from django.contrib.auth.models import User

    from checkpoints.models import Grant, Run
    from tests import driving
    from tests.upgrades.flow import flow
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.requests.answer import answer_request
    from wfdash.actions.runs.lifecycle import start_run
    from wfdash.engines import catalog

    ana = User.objects.create_user("ana", password=PASSWORD)
    Grant.objects.create(user=ana, role="admin")
    driving.put(catalog.load(), flow)
    for name, answers in ((WAITING, 0), (ASKED_AGAIN, 1), (DONE, 2)):
        run = start_run(viewer_for(ana), flow.name, 100)
        driving.drive(run)
        for _ in range(answers):
            (request,) = driving.pending(run).values()
            answer_request(viewer_for(ana), request.pk, APPROVE)
            driving.drive(run)
        Run.objects.filter(pk=run.pk).update(title=name)


def dump(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        text = "\n".join(connection.iterdump())
    DUMP.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(f"{DUMP.name}: {DUMP.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
