from __future__ import annotations

from collections.abc import Callable

import pytest

from checkpoints.models import HumanRequest, Notice, Webhook
from tests.actions.conftest import NOW
from tests.actions.requests.test_deadlines import at_once
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.announce import MAX_UNREAD_ANNOUNCEMENTS, announce_opened

Ask = Callable[..., HumanRequest]
Person = Callable[..., Viewer]


def told() -> list[str]:
    rows = Notice.objects.filter(kind="opened", user__isnull=False)
    return sorted(rows.values_list("user__username", flat=True))


def test_those_who_may_answer_hear_that_it_opened_and_no_one_else(ask: Ask, person: Person) -> None:
    person("ana", "reviewer")
    person("ben", "reviewer")
    person("carl", "reviewer", "refund")
    person("vera", "viewer")
    ask(not_by=["ben"])
    assert announce_opened() == 1
    assert told() == ["ana"]
    assert announce_opened() == 0


def test_what_is_closed_by_then_is_no_news(ask: Ask, person: Person) -> None:
    person("ana", "reviewer")
    ask(closed=NOW, closed_as="withdrawn")
    assert announce_opened() == 0


def test_many_at_once_bury_no_one_but_webhooks_hear_of_each(ask: Ask, person: Person) -> None:
    person("ana", "reviewer")
    Webhook.objects.create(id="w", name="w", url="https://example.org", secret="s", created=NOW)
    for n in range(MAX_UNREAD_ANNOUNCEMENTS + 20):
        ask(f"r{n}")
    assert announce_opened(limit=60) == 60
    assert announce_opened() == MAX_UNREAD_ANNOUNCEMENTS + 20 - 60
    assert len(told()) == MAX_UNREAD_ANNOUNCEMENTS
    assert Notice.objects.filter(channel="webhook").count() == MAX_UNREAD_ANNOUNCEMENTS + 20


@pytest.mark.django_db(transaction=True)
def test_two_sweepers_announce_each_request_once(ask: Ask, person: Person) -> None:
    person("ana", "reviewer")
    for n in range(40):
        ask(f"r{n}")
    counts = at_once(announce_opened, announce_opened)
    assert sum(int(count) for count in counts) == 40, counts
    assert len(told()) == 40
