"""Makes a dashboard's database in which a team has worked for a while, as SQL beside this module.

``python -m tests.upgrades.make_team`` in a checkout of the version that is to be upgraded from. What is here was made
by commit 4bdc43b, the last one before tokens, roles of authors, owners of webhooks and the API at /api/v1: it had
migrations up to 0008.
"""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.upgrades.make import APPROVE, ASKED_AGAIN, AUDIT_KEY, DONE, HERE, WAITING, dump

VOTED = "has-one-vote"
MISSED = "starts-when-it-is-late"
PASSWORD = "correct horse battery staple"


def main() -> None:
    """Make it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="wfdash.settings",
            WFDASH_DATA=folder,
            WFDASH_AUDIT_KEY=AUDIT_KEY,
            WFDASH_HOOKS_LOCAL="1",
            WFDASH_UNDO="0",
        )
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        serve()
        people = make_people()
        make_settings(people)
        make_runs(people)
        dump(Path(folder) / "wfdash.sqlite3", HERE / "team.sql.gz")


def serve() -> None:
    """Make the catalogue hold the two workflows of these tests."""
    from tests import driving
    from tests.upgrades.agreement import agreement
    from tests.upgrades.flow import flow
    from wfdash.engines import catalog

    entries: dict[str, Any] = {}
    for workflow in (flow, agreement):
        driving.put(catalog.load(), workflow)
        entries |= catalog.load().entries
    catalog.load().entries.update(entries)


def make_people() -> dict[str, Any]:
    """Adam may do everything; ana and ben are in finance and review."""
    from django.contrib.auth.models import Group, User

    from checkpoints.models import Grant
    from wfdash.access.viewer import viewer_for

    finance = Group.objects.create(name="finance")
    Grant.objects.create(group=finance, role="reviewer")
    adam = User.objects.create_user("adam", password=PASSWORD)
    Grant.objects.create(user=adam, role="admin")
    team = [User.objects.create_user(name, email=f"{name}@example.org") for name in ("ana", "ben")]
    finance.user_set.add(*team)
    return {user.username: viewer_for(user) for user in (adam, *team)}


def make_runs(people: dict[str, Any]) -> None:
    """Bring runs as far as their titles say."""
    from checkpoints.models import Run
    from tests import driving
    from wfdash.actions.requests.answer import answer_request
    from wfdash.actions.requests.collaboration import comment_on, save_draft
    from wfdash.actions.runs.lifecycle import start_run

    for name, answers in ((WAITING, 0), (ASKED_AGAIN, 1), (DONE, 2)):
        run = start_run(people["adam"], "purchase", 100)
        driving.drive(run)
        for _ in range(answers):
            (request,) = driving.pending(run).values()
            answer_request(people["adam"], request.pk, APPROVE)
            driving.drive(run)
        Run.objects.filter(pk=run.pk).update(title=name)
    run = start_run(people["adam"], "agreement", 7)
    driving.drive(run)
    (request,) = driving.pending(run).values()
    answer_request(people["ana"], request.pk, APPROVE)
    comment_on(people["ana"], request.pk, "Look at the total, @ben")
    save_draft(people["ben"], request.pk, {"_action": ["reject"], "reject.reason": ["too much"]})
    Run.objects.filter(pk=run.pk).update(title=VOTED)


def make_settings(people: dict[str, Any]) -> None:
    """Add what people set: a schedule that is late by now, a webhook, a view, an absence."""
    from django.utils import timezone
    from wfdash.actions.account.webhooks import create_webhook

    from wfdash.actions.account.preferences import save_view, set_absence
    from wfdash.actions.schedules import SchedulePlan, create_schedule

    plan = SchedulePlan(name=MISSED, cron="* * * * *", message=5)
    create_schedule(people["adam"], "agreement", plan)
    create_webhook(people["adam"], name="chat", url="http://127.0.0.1:1/hook", kinds=["decided"])
    save_view(people["ana"], "Large", "q=agree", page="inbox", shared=True)
    now = timezone.now()
    set_absence(people["ana"], "ben", now, now + timedelta(days=20))


if __name__ == "__main__":
    main()
