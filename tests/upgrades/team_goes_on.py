"""Brings the database of a team up to date and goes on working in it. Says what became of what was there.

``python -m tests.upgrades.team_goes_on``, with ``WFDASH_DATA`` as for the dashboard.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tests.upgrades.make_team import DONE, PASSWORD, VOTED, serve

PAGES = (
    "/",
    "/decisions/",
    "/away/",
    "/runs/",
    "/people/",
    "/people/access/",
    "/operations/",
    "/numbers/",
    "/audit/",
    "/notices/",
    "/settings/",
    "/settings/tokens/",
    "/settings/webhooks/",
    "/workflows/",
    "/schedules/",
)
OF_A_RUN = ("", "events/", "logs/", "state/", "checkpoints/", "record/", "at/3/")


def main() -> None:
    """Migrate, open every page, go on, and print what there was to see."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "wfdash.settings"
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    serve()
    found = {"refused": refused_pages(), "password": knows_password(), "token": token_reads()}
    found |= {"voted": second_vote(), "restored": restored(), "late": started_late(), "webhook": webhook()}
    found["others"] = rest()
    # It raises if the audit was altered.
    call_command("verify", stdout=sys.stderr)
    sys.stdout.write(json.dumps(found))


def viewer(name: str) -> Any:
    """Return a person's rights."""
    from django.contrib.auth.models import User

    from wfdash.access.viewer import viewer_for

    return viewer_for(User.objects.get(username=name))


def run_titled(title: str) -> Any:
    """Return a run of the old database."""
    from checkpoints.models import Run

    return Run.objects.get(title=title)


def refused_pages() -> list[str]:
    """Return the pages that do not open for an administrator: those of every run and request there is, too."""
    from django.test import Client

    from checkpoints.models import Checkpoint, HumanRequest, Run, Schedule, Webhook

    client = Client(HTTP_HOST="localhost")
    client.force_login(viewer("adam").user)
    paths = [*PAGES, *(f"/requests/{request.pk}/" for request in HumanRequest.objects.all())]
    paths += [f"/runs/{run.pk}/{part}" for run in Run.objects.all() for part in OF_A_RUN]
    paths += [f"/runs/{kept.run_id}/checkpoints/{kept.pk}/" for kept in Checkpoint.objects.all()]
    paths += [f"/schedules/{one.pk}/" for one in Schedule.objects.all()]
    paths += [f"/settings/webhooks/{one.pk}/" for one in Webhook.objects.all()]
    assert len(paths) > 60
    return [f"{code} {path}" for path in paths if (code := client.get(path).status_code) != 200]


def knows_password() -> bool:
    """Tell whether the old password still signs in."""
    from django.contrib.auth import authenticate

    return authenticate(username="adam", password=PASSWORD) is not None


def token_reads() -> list[str]:
    """Return the titles that a person's first token reads by the API."""
    from django.test import Client

    from wfdash.actions.account.tokens import create_token

    made = create_token(viewer("ana"), "first", rights=["see"])
    client = Client(HTTP_HOST="localhost")
    answer = client.get("/api/v1/runs", headers={"Authorization": f"Bearer {made.text}"})
    return sorted(item["workflow_title"] for item in answer.json()["items"])


def second_vote() -> dict[str, Any]:
    """Give the vote that was missing; returns what the run then says."""
    from tests import driving
    from wfdash.actions.requests.answer import answer_request

    run = run_titled(VOTED)
    (request,) = driving.pending(run).values()
    thread = [comment.text for comment in request.comments.all()]
    answer_request(viewer("ben"), request.pk, {"action": "approve"})
    driving.drive(run)
    run.refresh_from_db()
    return {"phase": run.phase, "output": run.output, "thread": thread}


def restored() -> dict[str, Any]:
    """Restore the ended run to its first question and answer it as the old version's runs are answered."""
    from tests.upgrades.go_on import finished
    from wfdash.actions.checkpoints import restore_run

    run = run_titled(DONE)
    first = run.checkpoints.filter(waiting=True).order_by("n").first()
    restore_run(viewer("adam"), run.pk, first.pk)
    return finished(run, viewer("adam"))


def started_late() -> list[Any]:
    """Let the schedules fire that are late; returns the inputs of the runs they started."""
    from checkpoints.models import Run
    from wfdash.actions.schedules import fire_schedules

    before = set(Run.objects.values_list("pk", flat=True))
    fire_schedules()
    return [run.input for run in Run.objects.exclude(pk__in=before)]


def webhook() -> dict[str, Any]:
    """Return what the old webhook is now, and how many deliveries are left for it."""
    from checkpoints.models import Notice, Webhook

    hook = Webhook.objects.get(name="chat")
    waiting = Notice.objects.filter(channel="webhook", target=hook.pk, kind="answered", sent=None).count()
    return {"kinds": hook.kinds, "owner": hook.owner_id, "waiting": waiting}


def rest() -> dict[str, Any]:
    """Answer what else is asked until nothing is; returns each run's title and phase."""
    from checkpoints.models import Run
    from tests.upgrades.go_on import finished

    runs = Run.objects.filter(workflow="purchase").exclude(title=DONE).order_by("created")
    return {run.title: finished(run, viewer("adam")) for run in runs}


if __name__ == "__main__":
    main()
