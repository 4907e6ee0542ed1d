"""No person, and no loop in a person's name, fills mailboxes or the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Comment, Draft, HumanRequest, IdempotencyKey, Notice, SignInTries
from tests import people
from wfdash.access.viewer import Viewer
from wfdash.actions import pacing
from wfdash.actions.account import save_view
from wfdash.actions.requests import collaboration
from wfdash.actions.requests.collaboration import (
    amend_request,
    ask_back,
    assign_request,
    comment_on,
    save_draft,
    take_over,
    watch_request,
)
from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.actions.runs import lifecycle
from wfdash.actions.runs.bulk import record_export
from wfdash.actions.runs.signals import send_signal
from wfdash.domain.errors import Invalid, TooOften, WrongState
from wfdash.engines import catalog

pytestmark = pytest.mark.django_db
As = Callable[[str], Client]


@pytest.fixture
def asked(everybody: dict[str, User]) -> HumanRequest:
    return people.ask(people.make_run(), "Pay 900?")


def charge(viewer: Viewer, kind: str = "comment", amount: int = 1) -> None:
    with write():
        pacing.charge(viewer, kind, amount)


def allow(monkeypatch: pytest.MonkeyPatch, kind: str, most: int) -> None:
    monkeypatch.setitem(pacing.MOST_BY_VERB, kind, most)


def test_an_act_costs_one_query_and_ends_at_its_limit(asked: HumanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, "comment", 3)
    ana, ben = people.viewer("ana"), people.viewer("ben")
    charge(ana)
    with write(), CaptureQueriesContext(connection) as made:
        pacing.charge(ana, "comment")
    assert len(made) == 1
    charge(ana)
    with pytest.raises(TooOften) as caught:
        charge(ana)
    assert 0 < caught.value.facts["retry_after"] <= 300
    charge(ben)
    charge(ana, "ask")


@pytest.fixture
def questions(settings: Any) -> Iterator[None]:
    settings.WFDASH_ASK_PEOPLE = True
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()


@pytest.mark.usefixtures("questions", "everybody")
def test_so_many_questions_of_one_account_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "MOST_OPEN", 2)
    otto = people.viewer("otto")
    runs = [lifecycle.start_run(otto, "ask_people", {"subject": "Ship?"}) for _ in range(2)]
    with pytest.raises(TooOften, match="2 questions of otto are open"):
        lifecycle.start_run(otto, "ask_people", {"subject": "Ship?"})
    lifecycle.cancel_run(otto, runs[0].pk)
    lifecycle.start_run(otto, "ask_people", {"subject": "Ship?"})


def test_it_goes_on_when_the_time_is_over(asked: HumanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, "comment", 1)
    ana = people.viewer("ana")
    charge(ana)
    SignInTries.objects.update(began=timezone.now() - timedelta(minutes=6))
    charge(ana)
    with pytest.raises(TooOften):
        charge(ana)


def test_the_api_says_how_long_to_wait_and_changes_nothing(
    asked: HumanRequest, as_: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, "comment", 2)
    client, address = as_("ana"), f"/api/v1/requests/{asked.pk}/comments"
    answers = [client.post(address, {"text": "Why?"}, content_type="application/json") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    assert 0 < int(answers[2]["Retry-After"]) <= 300
    assert "Nothing was changed. Try again in" in answers[2].json()["detail"]
    assert Comment.objects.count() == 2


def test_the_same_comment_sent_again_under_its_key_counts_once(
    asked: HumanRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, "comment", 1)
    for _ in range(3):
        comment_on(people.viewer("ana"), asked.pk, "Why?", key="k")
    assert Comment.objects.count() == 1


def test_mentions_end_before_they_fill_a_mailbox(asked: HumanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, "mention by comment", 5)
    for _ in range(2):
        comment_on(people.viewer("ana"), asked.pk, "@ben @otto look")
    with pytest.raises(TooOften):
        comment_on(people.viewer("ana"), asked.pk, "@ben @otto look")
    assert Notice.objects.filter(kind="mentioned", channel="browser").count() == 4
    comment_on(people.viewer("ana"), asked.pk, "nobody is told of this")


ACTS: dict[str, Callable[[Viewer, HumanRequest], Any]] = {
    "ask": lambda viewer, asked: ask_back(viewer, asked.pk, "Which?"),
    "assign": lambda viewer, asked: assign_request(viewer, asked.pk, "otto"),
    "take": lambda viewer, asked: take_over(viewer, asked.pk),
    "amend": lambda viewer, asked: amend_request(viewer, asked.pk, body="More"),
    "draft": lambda viewer, asked: save_draft(viewer, asked.pk, {"reason": ["x"]}),
    "presence": lambda viewer, asked: watch_request(viewer, asked.pk),
    "signal": lambda viewer, asked: send_signal(viewer, asked.run_id, "go"),
    "view": lambda viewer, asked: save_view(viewer, "Mine", "q=x"),
    "export": lambda viewer, asked: record_export(viewer, "runs", text="", kind="csv"),
    "extend": lambda viewer, asked: extend_deadline(viewer, asked.pk, timezone.now() + timedelta(days=1)),
}


@pytest.mark.parametrize("kind", ACTS)
def test_acts_that_tell_others_or_keep_something_have_a_limit(
    asked: HumanRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    otto = people.viewer("otto")
    ACTS[kind](otto, asked)
    allow(monkeypatch, kind, 1)
    with pytest.raises(TooOften):
        ACTS[kind](otto, asked)


def test_a_request_holds_so_many_comments(asked: HumanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collaboration, "MOST_COMMENTS", 1)
    comment_on(people.viewer("ana"), asked.pk, "Why?")
    with pytest.raises(WrongState, match="the maximum"):
        comment_on(people.viewer("otto"), asked.pk, "Because")


def test_drafts_for_what_is_over_make_room(asked: HumanRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collaboration, "MOST_DRAFTS", 2)
    ana, fields = people.viewer("ana"), {"reason": ["x"]}
    others = [people.ask(people.make_run()) for _ in range(3)]
    for other in others[:2]:
        save_draft(ana, other.pk, fields)
    with pytest.raises(Invalid, match=r"errors at each field|drafts for 2"):
        save_draft(ana, asked.pk, fields)
    save_draft(ana, others[0].pk, {"reason": ["changed"]})
    HumanRequest.objects.filter(pk=others[1].pk).update(closed=timezone.now())
    save_draft(ana, asked.pk, fields)
    assert set(Draft.objects.values_list("request_id", flat=True)) == {others[0].pk, asked.pk}


def test_keys_beyond_what_one_person_may_have_are_forgotten_sooner(
    asked: HumanRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "MOST_KEPT", 2)
    now = timezone.now()
    for n in range(5):
        at = now - timedelta(minutes=n)
        IdempotencyKey.objects.create(person="ana", key=f"k{n}", verb="comment", digest="d", at=at)
    IdempotencyKey.objects.create(person="ben", key="k", verb="comment", digest="d", at=now - timedelta(hours=1))
    assert pacing.forget_keys() == 3
    assert sorted(IdempotencyKey.objects.values_list("key", flat=True)) == ["k", "k0", "k1"]
