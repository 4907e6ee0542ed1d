"""A subject that turns its text around, or hides some of it, is shown as it is wherever it is listed."""

from __future__ import annotations

import pytest
from django.utils import timezone

from checkpoints.models import Answer, HumanRequest
from tests import people
from tests.people import make_run
from wfdash.actions.account import save_view
from wfdash.actions.requests.collaboration import comment_on
from wfdash.actions.schedules import SchedulePlan, create_schedule

SUBJECT = "Pay \u202e001\u202c EUR\u200b to \x1bAna"
SHOWN = "Pay [U+202E]001[U+202C] EUR[U+200B] to ␛Ana"


@pytest.fixture
def deceiving(everybody) -> HumanRequest:
    run = make_run(phase="waiting")
    return people.ask(run, SUBJECT, due=timezone.now())


@pytest.mark.parametrize(
    "path", ["/?tab=all", "/requests/{request}/", "/runs/", "/runs/{run}/", "/operations/", "/statistics/"]
)
def test_open_requests_are_listed_with_every_character(as_, deceiving, path):
    page = as_("otto").get(path.format(request=deceiving.pk, run=deceiving.run_id)).content.decode()
    assert SHOWN in page
    assert "\u202e" not in page


def test_decisions_are_listed_with_every_character(as_, deceiving, everybody):
    now = timezone.now()
    HumanRequest.objects.filter(pk=deceiving.pk).update(answered=now, closed=now, closed_as="taken")
    Answer.objects.create(request=deceiving, by=everybody["ana"], verdict="approve", value={}, at=now)
    for path in ("/decisions/", f"/runs/{deceiving.run_id}/"):
        page = as_("otto").get(path).content.decode()
        assert SHOWN in page, path
        assert "\u202e" not in page, path


def test_names_are_stored_without_what_deceives_and_comments_are_shown_with_it(as_, deceiving):
    plan = SchedulePlan(name=SUBJECT, cron="@daily", message={"claims": "x"})
    made = create_schedule(people.viewer("otto"), people.WORKFLOW, plan)
    assert made.name == save_view(people.viewer("otto"), SUBJECT, "tab=all").name == "Pay 001 EUR to Ana"
    comment_on(people.viewer("ana"), deceiving.pk, f"@otto {SUBJECT}")
    assert SHOWN in (page := as_("otto").get("/notifications/").content.decode())
    assert "\u202e" not in page
