"""A request that no one can decide says so, and to whom it can help."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Absence, Answer, Event, HumanRequest, Notice
from tests import people
from wfdash.access.directory import decidability_of
from wfdash.actions.requests.announce import announce_opened, recheck_stuck
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.collaboration import assign_request
from wfdash.queries.requests.inbox import read_inbox
from wfdash.queries.requests.request import read_request

pytestmark = pytest.mark.django_db

YES = {"action": "approve"}


def opened(**facts) -> HumanRequest:
    """Open a request and let it be announced."""
    request = people.ask(people.make_run(), **facts)
    announce_opened()
    return HumanRequest.objects.select_related("run", "run__created_by").get(pk=request.pk)


def told() -> list[str]:
    """Return who was told that no one can decide."""
    return sorted(
        Notice.objects.filter(kind="unanswerable", channel="browser").values_list("user__username", flat=True)
    )


@pytest.mark.parametrize(
    ("by", "policy", "words"),
    [
        (["legal"], {}, "there is no user or group named legal"),
        (["empty"], {}, "group empty has no members"),
        (["vera"], {}, "vera cannot answer requests of this workflow"),
        (["gone"], {}, "gone’s account is disabled"),
        (["ana"], {"need": 3}, "Needs 3 people, but only 1 can answer: ana"),
    ],
)
def test_a_request_that_no_one_can_decide_says_why_when_it_opens(person, by, policy, words) -> None:
    person("otto", "operator")
    person("ana", "reviewer")
    person("vera", "viewer")
    person("ben", "reviewer", "empty").user.groups.clear()
    gone = person("gone", "reviewer").user
    gone.is_active = False
    gone.save()
    request = opened(by=by, policy={"by": by, **policy})
    assert words in Event.objects.get(run=request.run, kind="request.unanswerable").data["words"]
    assert told() == ["otto"]
    assert words in read_request(person("otto"), request.pk).unanswerable
    (row,) = read_inbox(person("otto"), "all", "is:unanswerable").items
    assert row.id == request.pk


def test_a_request_that_someone_can_decide_says_nothing(person) -> None:
    person("ana", "reviewer", "finance")
    request = opened(by=["finance"])
    assert request.stuck == ""
    assert not Event.objects.filter(kind="request.unanswerable").exists()
    assert read_request(person("ana"), request.pk).unanswerable == ""


def test_everybody_who_is_addressed_may_be_excluded(person) -> None:
    ana = person("ana", "reviewer")
    run = people.make_run(created_by=ana.user)
    request = people.ask(run, by=["ana"], not_by=["requester"])
    announce_opened()
    request.refresh_from_db()
    assert request.stuck == "nobody"
    assert "everyone it is addressed to is excluded" in decidability_of(request).words


def test_once_the_group_has_members_it_can_be_decided_again(person) -> None:
    person("ana", "reviewer")
    request = opened(by=["legal"])
    assert request.stuck == "nobody"
    person("ana", "", "legal")
    assert recheck_stuck() == 1
    request.refresh_from_db()
    assert request.stuck == ""


def test_assigning_it_to_someone_is_a_way_out(person) -> None:
    person("ana", "reviewer")
    request = opened(by=["legal"])
    assign_request(person("otto", "operator"), request.pk, "ana")
    request.refresh_from_db()
    assert request.stuck == ""


def test_a_split_vote_is_told_to_voters_and_operators_and_withdrawing_mends_it(person) -> None:
    person("ana", "reviewer", "finance")
    person("ben", "reviewer", "finance")
    person("otto", "operator")
    request = opened(by=["finance"], policy={"by": ["finance"], "need": 2})
    answer_request(person("ana"), request.pk, YES)
    assert not Event.objects.filter(kind="request.unanswerable").exists()
    schema = {"type": "object", "properties": {"action": {}, "edited": {}}}
    HumanRequest.objects.update(answer_schema=schema, card={"subject": "Pay", "proposal": 900})
    answer_request(person("ben"), request.pk, {"action": "edit", "edited": 800})
    shown = read_request(person("ana"), request.pk)
    assert shown.unanswerable == "1 of 2 for approve, 1 of 2 for edit: no one is left to decide."
    assert told() == ["ana", "ben", "otto"]
    undo_answer(person("ben"), request.pk)
    request.refresh_from_db()
    assert request.stuck == ""
    answer_request(person("ben"), request.pk, {"action": "edit", "edited": 900})
    assert Answer.objects.exists()


def test_a_vote_by_a_stand_in_leaves_no_one_to_vote_for_the_same_person(person) -> None:
    ana, rex, now = person("ana", "reviewer", "finance"), person("rex", "reviewer"), timezone.now()
    Absence.objects.create(user=ana.user, delegate=rex.user, since=now, until=now + timedelta(days=1))
    assert opened(by=["finance"], policy={"by": ["finance"], "need": 2}).stuck == "few"


def test_the_api_tells_that_an_answer_was_a_vote(as_, everybody) -> None:
    request = people.ask(people.make_run(), policy={"need": 2})
    address = f"/api/v1/requests/{request.pk}/answer"
    first = as_("ana").post(address, {"value": YES}, content_type="application/json").json()
    assert (first["votes"], first["need"], first["decided"]) == (1, 2, False)
    second = as_("ben").post(address, {"value": YES}, content_type="application/json").json()
    assert (second["votes"], second["need"], second["decided"]) == (2, 2, True)
