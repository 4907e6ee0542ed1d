"""Makes a dashboard's database and a library's file whose runs wait for people, as SQL beside this module.

``python -m tests.upgrades.make`` in a checkout of the version that is to be upgraded from. What is here was made by
the last one before the migrations became one, which had 22 of them; files had version 3.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
WAITING, ASKED_AGAIN, DONE = "waits-for-the-first", "waits-for-the-second", "has-ended"
APPROVE = {"action": "approve"}
AUDIT_KEY = "a key for the audit of these tests"


def main() -> None:
    """Make both."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="wfdash.settings", WFDASH_DATA=folder, WFDASH_AUDIT_KEY=AUDIT_KEY)
        import django

        django.setup()
        make_dashboard()
        dump(Path(folder) / "wfdash.sqlite3", HERE / "dashboard.sql.gz")
        asyncio.run(make_file(Path(folder) / "runs.sqlite3"))
        dump(Path(folder) / "runs.sqlite3", HERE / "file.sql.gz")


def make_dashboard() -> None:
    """Migrate, and bring three runs as far as their ids say."""
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from checkpoints.models import Grant, Run
    from tests import driving
    from tests.upgrades.flow import flow
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.requests.answer import answer_request
    from wfdash.actions.runs.lifecycle import start_run
    from wfdash.engines import catalog

    call_command("migrate", verbosity=0)
    ana = User.objects.create_user("ana")
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


async def make_file(path: Path) -> None:
    """Do the same by library calls."""
    from checkpoints.file import FileStorage
    from tests.upgrades.flow import flow

    async with FileStorage(path) as storage:
        for name, answers in ((WAITING, 0), (ASKED_AGAIN, 1), (DONE, 2)):
            outcome = await flow.run(100, storage=storage, run_id=name)
            for _ in range(answers):
                (request,) = outcome.checkpoint.requests
                outcome = await flow.run(answers={request.key: APPROVE}, storage=storage, run_id=name)


def dump(database: Path, to: Path) -> None:
    """Write a database as SQL; its version, which no dump has, comes first."""
    with closing(sqlite3.connect(database)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        text = "\n".join([f"PRAGMA user_version={version};", *connection.iterdump()])
    to.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(f"{to.name}: {to.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
