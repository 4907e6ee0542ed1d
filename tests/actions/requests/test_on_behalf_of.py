from __future__ import annotations

import pytest

from checkpoints.models import Answer, AuditEntry, Reply
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import assign_request
from wfdash.domain.errors import AlreadyAnswered, Invalid, NotAllowed

pytestmark = pytest.mark.django_db

YES = {"action": "approve", "reason": "She said so on the phone"}


@pytest.fixture
def otto(person):
    person("ana", "reviewer")
    person("ben", "reviewer")
    return person("otto", "operator")


def test_an_operator_writes_down_what_someone_decided_and_the_record_names_both(otto, ask) -> None:
    request = ask(by=["ana"])
    reply = answer_request(otto, request.id, YES, on_behalf_of="ana")
    assert (reply.by.username, reply.acting_for) == ("otto", "ana")
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.actor, entry.facts["acting_for"]) == ("answer", "otto", "ana")
    assert entry.right == "operator, on behalf of ana: named: ana"
    assert (reply.stands, Answer.objects.get().verdict) == ("approved", "approve")


def test_it_needs_a_reason(otto, ask) -> None:
    with pytest.raises(Invalid) as refused:
        answer_request(otto, ask(by=["ana"]).id, {"action": "approve"}, on_behalf_of="ana")
    assert refused.value.errors[0]["loc"] == ["reason"]


@pytest.mark.parametrize("name", ["ben", "otto", "nobody"])
def test_only_for_someone_else_who_may_answer_it(otto, ask, name) -> None:
    with pytest.raises(Invalid) as refused:
        answer_request(otto, ask(by=["ana"]).id, YES, on_behalf_of=name)
    assert refused.value.errors[0]["loc"] == ["on_behalf_of"]


def test_anyone_who_has_it_may_be_spoken_for(otto, ask) -> None:
    request = ask(by=["ana"])
    assign_request(otto, request.id, "ben")
    assert answer_request(otto, request.id, YES, on_behalf_of="ben").acting_for == "ben"


def test_only_operators_may_and_no_one_who_is_excluded(otto, ask, person) -> None:
    with pytest.raises(NotAllowed):
        answer_request(person("ben"), ask(by=["ana"]).id, YES, on_behalf_of="ana")
    with pytest.raises(NotAllowed, match="second person"):
        answer_request(otto, ask("k2", by=["ana"], not_by=["otto"]).id, YES, on_behalf_of="ana")
    with pytest.raises(Invalid):
        answer_request(otto, ask("k3", not_by=["ana"]).id, YES, on_behalf_of="ana")


def test_it_counts_as_one_vote_of_that_person_who_has_no_second_one(otto, ask, person) -> None:
    request = ask(policy={"need": 2})
    answer_request(otto, request.id, YES, on_behalf_of="ana")
    with pytest.raises(AlreadyAnswered, match="otto already answered approve"):
        answer_request(person("ana"), request.id, YES)
    with pytest.raises(AlreadyAnswered):
        answer_request(otto, request.id, YES, on_behalf_of="ana")
    assert not Answer.objects.exists()
    answer_request(person("ben"), request.id, YES)
    assert Answer.objects.exists()
    assert Reply.objects.count() == 2


def test_no_one_is_spoken_for_who_has_spoken(otto, ask, person) -> None:
    request = ask(policy={"need": 2})
    answer_request(person("ana"), request.id, YES)
    with pytest.raises(AlreadyAnswered, match="ana already answered approve"):
        answer_request(otto, request.id, YES, on_behalf_of="ana")
