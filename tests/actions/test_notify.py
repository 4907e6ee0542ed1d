from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.database.storage import write
from checkpoints.models import HumanRequest, Notice, Preference, Webhook
from wfdash import pubsub
from wfdash.notifications.write import notify

Ask = Callable[..., HumanRequest]


@pytest.fixture
def ana(db) -> User:
    return User.objects.create(username="ana", email="ana@example.org")


@pytest.fixture
def mail_is_on(settings) -> None:
    settings.WFDASH_MAIL = "smtp://localhost"


def channels(kind: str) -> list[str]:
    return sorted(Notice.objects.filter(kind=kind).values_list("channel", flat=True))


def test_a_person_is_told_in_the_browser_always_and_by_mail_where_there_is_one(ask: Ask, ana, mail_is_on) -> None:
    ben = User.objects.create(username="ben")
    with write():
        notify("reminder", ask(card={"subject": "Pay?"}), [ana, ben, ana])
    rows = {(row.user.username, row.channel): row for row in Notice.objects.select_related("user")}
    assert rows.keys() == {("ana", "browser"), ("ana", "mail"), ("ben", "browser")}
    assert rows["ana", "browser"].sent is not None
    assert rows["ana", "mail"].sent is None
    assert rows["ana", "mail"].payload["subject"] == "Pay?"


def test_many_people_take_no_more_statements_than_one(ask: Ask, ana, mail_is_on) -> None:
    many = [User.objects.create(username=f"p{n}", email=f"p{n}@example.org") for n in range(9)]
    taken = []
    for people in ([ana], many):
        request = ask(f"for {len(people)}")
        with CaptureQueriesContext(connection) as seen, write():
            notify("reminder", request, people)
        taken.append(len(seen))
    assert Notice.objects.count() == 2 * (1 + len(many))
    assert taken[0] == taken[1]


def test_that_a_request_opened_goes_by_mail_only_if_chosen(ask: Ask, ana, mail_is_on) -> None:
    with write():
        notify("opened", ask(), [ana])
    assert channels("opened") == ["browser"]
    Preference.objects.create(user=ana, data={"channels": {"opened": ["mail"], "reminder": []}})
    with write():
        notify("opened", ask("b"), [ana])
        notify("reminder", ask("c"), [ana])
    assert channels("opened") == ["browser", "mail"]
    assert channels("reminder") == []


def test_what_is_said_once_is_not_said_again(ask: Ask, ana, mail_is_on) -> None:
    request = ask()
    for _ in range(2):
        with write():
            notify("assigned", request, [ana], once=f"assigned:{request.id}")
    assert channels("assigned") == ["browser", "mail"]


def test_no_one_is_told_of_their_own_act_nor_anyone_who_left(ask: Ask, ana) -> None:
    gone = User.objects.create(username="gone", is_active=False)
    with write():
        notify("taken", ask(), [ana, gone], facts={"by": "ana"})
    assert not Notice.objects.exists()


def test_digests_and_quiet_hours_put_off_the_mail_only(ask: Ask, ana, mail_is_on) -> None:
    Preference.objects.create(user=ana, data={"digest": "hourly", "zone": "Asia/Kolkata"})
    with write():
        notify("assigned", ask(), [ana])
    mail = Notice.objects.get(channel="mail")
    assert mail.due > mail.created
    assert (mail.due.minute, mail.due.second) == (0, 0)
    assert Notice.objects.get(channel="browser").sent is not None


def test_webhooks_hear_what_they_ask_for(ask: Ask, ana) -> None:
    now = datetime.now(UTC)
    made = {
        name: Webhook.objects.create(id=name, name=name, url="https://example.org", secret="s", created=now, **facts)
        for name, facts in {
            "all": {},
            "ours": {"workflow": "expense", "kinds": ["opened"]},
            "others": {"workflow": "refund"},
            "decisions": {"kinds": ["decided"]},
            "off": {"active": False},
        }.items()
    }
    with write():
        notify("opened", ask(), [])
    assert set(Notice.objects.values_list("target", flat=True)) == {made["all"].pk, made["ours"].pk}


@pytest.mark.django_db(transaction=True)
def test_a_bell_rings_for_each_person_once_it_is_committed(ask: Ask, ana) -> None:
    heard: list[int] = []
    leave = pubsub.notifications_changed.subscribe(heard.append)
    try:
        with write():
            notify("opened", ask(), [ana])
            assert heard == []
    finally:
        leave()
    assert heard == [ana.pk]
