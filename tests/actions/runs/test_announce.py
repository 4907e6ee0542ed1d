"""Who is notified of failures, held runs and late schedules, how often, and what a notification does not say."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.models import Grant, Notice, Run, Schedule, Webhook
from tests import people
from tests.people import make_run
from wfdash.actions import schedules
from wfdash.actions.runs import search_index
from wfdash.actions.runs.search_index import announce_held
from wfdash.notifications.letters import page_of
from wfdash.queries.account import notices
from wfdash.worker.outbox import Bundle, deliver


def fail(error: str = "lib.TimeoutError", **facts: Any) -> Run:
    at = facts.pop("finished", timezone.now())
    return make_run(phase="failed", finished=at, error={"type": error, "message": "IBAN DE00 1234"}, **facts)


def notified(kind: str = "failed") -> list[str]:
    rows = Notice.objects.filter(kind=kind, channel="browser").select_related("user")
    return sorted(row.user.username for row in rows if row.user)


@pytest.fixture
def late(everybody) -> Schedule:
    now = timezone.now()
    return Schedule.objects.create(
        id="0" * 32,
        name="Nightly",
        workflow=people.WORKFLOW,
        cron="@daily",
        created=now,
        updated=now,
        next_at=now - timedelta(hours=2),
        owner=everybody["vera"],
    )


def test_operators_and_who_started_it_are_notified_of_a_failure(everybody):
    fail(created_by=everybody["vera"])
    search_index.index_failures()
    assert notified() == ["adam", "otto", "vera"]
    (seen,) = notices(people.viewer("vera")).items
    assert (seen.headline, seen.text, seen.page) == (
        "Failed: Expenses",
        "TimeoutError",
        f"/runs/{Run.objects.get().pk}/",
    )


def test_the_message_of_an_error_is_in_no_notification(everybody):
    fail()
    search_index.index_failures()
    assert Notice.objects.exists()
    assert "IBAN" not in json.dumps([notice.payload for notice in Notice.objects.all()])


def test_an_outage_is_one_notification_and_another_error_is_another(everybody):
    for _ in range(120):
        fail()
    while search_index.index_failures():
        pass
    assert notified() == ["adam", "otto"]
    fail("ValueError")
    fail(workflow="publish_article")
    search_index.index_failures()
    assert notified() == ["adam"] * 3 + ["otto"] * 3


def test_an_old_failure_that_is_indexed_late_is_no_news(everybody):
    fail(finished=timezone.now() - timedelta(days=30))
    assert search_index.index_failures() == 1
    assert notified() == []


def test_people_without_access_any_more_are_not_notified(everybody):
    fail(created_by=everybody["sam"])
    search_index.index_failures()
    assert "sam" not in notified()
    Grant.objects.filter(user=everybody["otto"]).update(workflow="another")
    assert notices(people.viewer("otto")).items == ()
    Notice.objects.filter(user=everybody["adam"]).delete()
    Grant.objects.filter(user=everybody["otto"]).delete()
    mail = Notice.objects.get(user=everybody["otto"])
    Notice.objects.filter(pk=mail.pk).update(channel="mail", sent=None, due=timezone.now() - timedelta(minutes=1))
    sent: list[Any] = []
    deliver(
        Bundle(channel="mail", user=everybody["otto"].pk, target=""), {"mail": lambda _, letters: sent.extend(letters)}
    )
    assert (sent, Notice.objects.get(pk=mail.pk).error) == ([], "No longer has access")


def test_a_webhook_hears_of_runs_and_schedules_by_their_names(everybody, late, monkeypatch):
    monkeypatch.setattr(schedules, "WATCHED_SECONDS", 0.0)
    Webhook.objects.create(id="h", name="h", url="https://example.org", secret="s", workflow="*", created=people.THEN)
    run = fail()
    search_index.index_failures()
    announce_held(run)
    schedules.announce_late()
    from wfdash.notifications.webhook import body_of

    sent: list[Any] = []
    deliver(Bundle(channel="webhook", user=None, target="h"), {"webhook": lambda _, letters: sent.extend(letters)})
    bodies = [json.loads(body_of(letter)) for letter in sent]
    assert [body["type"] for body in bodies] == ["run.held", "schedule.late"]
    assert bodies[0]["data"]["run"] == run.pk
    assert bodies[0]["data"]["url"].endswith(f"/runs/{run.pk}/")


def test_a_held_run_is_announced_once_for_its_version(everybody):
    for _ in range(3):
        announce_held(make_run(phase="paused", version="v1"))
    announce_held(make_run(phase="paused", version="v2"))
    assert notified("held") == ["adam", "adam", "otto", "otto"]


def test_a_late_schedule_is_announced_once_for_each_time_that_passed(late, monkeypatch):
    monkeypatch.setattr(schedules, "WATCHED_SECONDS", 0.0)
    assert (schedules.announce_late(), schedules.announce_late()) == (1, 0)
    assert notified("late") == ["adam", "otto", "vera"]
    Schedule.objects.update(next_at=timezone.now() - timedelta(hours=1))
    assert schedules.announce_late() == 1
    assert page_of("late", {"subject": "Nightly"}) == "/schedules/?q=Nightly"


def test_a_worker_that_has_just_started_fires_what_is_due_before_it_complains(late):
    assert schedules.announce_late() == 0
    Schedule.objects.update(next_at=None)
    assert schedules.announce_late() == 0
    assert schedules._seen == {}
