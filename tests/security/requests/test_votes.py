"""One person has one vote, regardless of who gives it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import RunId
from checkpoints.models import Absence, Answer, Reply
from tests import people
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import assign_request
from wfdash.domain.errors import AlreadyAnswered, Invalid, NotAllowed

pytestmark = pytest.mark.django_db

YES = {"action": "approve"}


def away(absent, delegate) -> None:
    """Let someone stand in for an absent person from now on."""
    now = timezone.now()
    Absence.objects.create(user=absent.user, delegate=delegate.user, since=now, until=now + timedelta(days=1))


@pytest.fixture
def request_for_two(person):
    person("ana", "reviewer", "finance")
    person("ben", "reviewer", "finance")
    person("rex", "reviewer")
    return people.ask(people.make_run(), by=["finance"], policy={"by": ["finance"], "need": 2})


def test_a_stand_in_does_not_double_a_vote(person, request_for_two) -> None:
    away(person("ana"), person("rex"))
    assert answer_request(person("rex"), request_for_two.pk, YES).acting_for == "ana"
    with pytest.raises(AlreadyAnswered, match="rex already answered approve, as or on behalf of ana"):
        answer_request(person("ana"), request_for_two.pk, YES)
    assert not Answer.objects.exists()
    answer_request(person("ben"), request_for_two.pk, YES)
    assert Answer.objects.exists()


def test_a_stand_in_named_after_the_vote_does_not_double_it(person, request_for_two) -> None:
    answer_request(person("ana"), request_for_two.pk, YES)
    away(person("ana"), person("rex"))
    with pytest.raises(AlreadyAnswered, match="ana already answered approve"):
        answer_request(person("rex"), request_for_two.pk, YES)
    assert Reply.objects.count() == 1


def test_a_second_stand_in_does_not_double_the_vote_of_the_first(person, request_for_two) -> None:
    away(person("ana"), person("rex"))
    answer_request(person("rex"), request_for_two.pk, YES)
    Absence.objects.all().delete()
    away(person("ana"), person("sam", "reviewer"))
    with pytest.raises(AlreadyAnswered):
        answer_request(person("sam"), request_for_two.pk, YES)


def test_who_stands_in_for_two_decides_for_the_one_who_has_not_voted(person, request_for_two) -> None:
    answer_request(person("ana"), request_for_two.pk, YES)
    away(person("ana"), person("rex"))
    away(person("ben"), person("rex"))
    assert answer_request(person("rex"), request_for_two.pk, YES).acting_for == "ben"
    assert Answer.objects.exists()


def test_no_one_votes_for_themselves_and_for_another(person, request_for_two) -> None:
    away(person("ana"), person("ben"))
    answer_request(person("ben"), request_for_two.pk, YES)
    with pytest.raises(AlreadyAnswered, match="You already answered approve"):
        answer_request(person("ben"), request_for_two.pk, YES)


def test_what_an_operator_wrote_down_for_someone_is_their_only_vote(person, request_for_two) -> None:
    otto = person("otto", "operator")
    answer_request(otto, request_for_two.pk, YES, on_behalf_of="ana", reason="by phone")
    away(person("ana"), person("rex"))
    for name in ("ana", "rex"):
        with pytest.raises(AlreadyAnswered):
            answer_request(person(name), request_for_two.pk, YES)
    assert not Answer.objects.exists()


def test_an_excluded_group_may_not_answer_and_a_group_that_does_not_exist_excludes_everybody(person) -> None:
    person("ana", "reviewer", "finance")
    run = people.make_run()
    with pytest.raises(NotAllowed, match="second person"):
        answer_request(person("ana"), people.ask(run, not_by=["finance"]).pk, YES)
    unknown = people.ask(run, not_by=["finanse"])
    with pytest.raises(NotAllowed, match="“finanse” must not answer, but no such user or group exists"):
        answer_request(person("ana"), unknown.pk, YES)
    with pytest.raises(NotAllowed, match="finanse"):
        answer_request(person("otto", "operator"), unknown.pk, YES, override=True, reason="hurry")


def test_an_operators_own_assignment_does_not_make_them_addressed(person) -> None:
    otto, request = person("otto", "operator"), people.ask(people.make_run(), by=["finance"])
    assign_request(otto, request.pk, "otto")
    with pytest.raises(NotAllowed, match="assignment does not let operators answer"):
        answer_request(otto, request.pk, YES)
    reply = answer_request(otto, request.pk, YES, override=True, reason="finance is on holiday")
    assert reply.stands == "overrode"


def test_speaking_for_someone_whom_only_an_operator_chose_is_an_override(person) -> None:
    person("rex", "reviewer")
    otto, request = person("otto", "operator"), people.ask(people.make_run(), by=["finance"])
    assign_request(otto, request.pk, "rex")
    reply = answer_request(otto, request.pk, YES, on_behalf_of="rex", reason="he said so")
    assert (reply.stands, reply.acting_for) == ("overrode", "rex")


def test_a_policy_can_forbid_operators_to_decide_instead_of_others(person) -> None:
    person("rex", "reviewer")
    person("ana", "reviewer", "finance")
    otto = person("otto", "operator")
    request = people.ask(people.make_run(), by=["finance"], policy={"by": ["finance"], "override": False})
    for how in ({"override": True}, {"on_behalf_of": "ana"}):
        with pytest.raises(NotAllowed, match="workflow does not allow"):
            answer_request(otto, request.pk, YES, reason="hurry", **how)
    with pytest.raises(Invalid):
        assign_request(otto, request.pk, "rex")
    answer_request(person("ana"), request.pk, YES)
    assert Answer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_everyone_who_voted_may_be_excluded_from_the_next_question(person, request_for_two) -> None:
    away(person("ana"), person("rex"))
    answer_request(person("rex"), request_for_two.pk, YES)
    answer_request(person("ben"), request_for_two.pk, YES)
    storage = DatabaseStorage()
    (answer,) = async_to_sync(storage.read_answers)(RunId(request_for_two.run_id)).values()
    async_to_sync(storage.aclose)()
    assert (answer.by, answer.acting_for, answer.others) == ("ben", None, ("ana", "rex"))
    assert answer.voters == ("ana", "ben", "rex")
