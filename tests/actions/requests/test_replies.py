from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from checkpoints.models import Absence, Answer, AuditEntry, HumanRequest, Reply, Run, Shown
from tests.people import kinds
from wfdash.access.viewer import viewer_for
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.finalize import finalize_due, next_finalization
from wfdash.domain.errors import AlreadyAnswered, Changed, Invalid, NotAllowed, WrongState
from wfdash.domain.hash_chain import fingerprint

pytestmark = pytest.mark.django_db

YES, NO = {"action": "approve"}, {"action": "reject"}


def let_time_pass() -> None:
    earlier = timezone.now() - timedelta(seconds=1)
    Reply.objects.filter(settles__isnull=False).update(settles=earlier)
    HumanRequest.objects.filter(settles__isnull=False).update(settles=earlier)


def test_an_answer_that_may_be_undone_takes_effect_only_when_its_time_has_come(person, ask, run) -> None:
    request = ask()
    assert answer_request(person("ana", "reviewer"), request.id, YES, undo=True).settles == next_finalization()
    assert Run.objects.get(pk=run.pk).phase == "waiting"
    assert not Answer.objects.exists()
    assert finalize_due() == 0
    let_time_pass()
    assert (finalize_due(), finalize_due()) == (1, 0)
    assert Answer.objects.get().verdict == "approve"
    assert Run.objects.get(pk=run.pk).phase == "ready"
    assert kinds(run) == ["request.answering", "request.answered"]


def test_an_undone_answer_leaves_the_request_open_for_everybody(person, ask, run) -> None:
    request, ana, ben = ask(), person("ana", "reviewer"), person("ben", "reviewer")
    answer_request(ana, request.id, YES, undo=True)
    with pytest.raises(AlreadyAnswered, match="Already answered by ana"):
        answer_request(ben, request.id, NO)
    undo_answer(ana, request.id)
    let_time_pass()
    assert finalize_due() == 0
    assert answer_request(ben, request.id, NO).settles is None
    assert Answer.objects.get().verdict == "reject"
    assert kinds(run) == ["request.answering", "request.undone", "request.answered"]


def test_only_who_answered_can_undo_and_only_in_time(person, ask) -> None:
    request, ana, ben = ask(), person("ana", "reviewer"), person("ben", "reviewer")
    answer_request(ana, request.id, YES, undo=True)
    with pytest.raises(WrongState, match="Nothing to undo"):
        undo_answer(ben, request.id)
    let_time_pass()
    with pytest.raises(WrongState, match="Too late"):
        undo_answer(ana, request.id)


@pytest.mark.parametrize("policy", [{"undo": 0.0}, {}])
def test_undo_can_be_switched_off_by_policy_and_by_setting(person, ask, settings, policy) -> None:
    settings.WFDASH_UNDO = 10 if policy else 0
    request = ask(policy=policy)
    assert answer_request(person("ana", "reviewer"), request.id, YES, undo=True).settles is None
    assert Answer.objects.filter(request=request).exists()


def test_a_reply_to_a_request_that_was_superseded_in_the_meantime_never_settles(person, ask) -> None:
    request = ask()
    answer_request(person("ana", "reviewer"), request.id, YES, undo=True)
    HumanRequest.objects.update(closed=timezone.now(), closed_as="superseded")
    let_time_pass()
    assert finalize_due() == 0
    assert next_finalization() is None
    assert not Answer.objects.exists()


def test_two_of_three_must_say_the_same_and_the_run_waits_until_then(person, ask, run) -> None:
    request = ask(policy={"need": 2})
    for name in ("ben", "cem"):
        person(name, "reviewer")
    answer_request(person("ana", "reviewer"), request.id, YES)
    assert Run.objects.get(pk=run.pk).phase == "waiting"
    with pytest.raises(AlreadyAnswered, match="You already answered approve"):
        answer_request(person("ana"), request.id, YES)
    answer_request(person("ben"), request.id, {**YES, "amount": 3})
    assert not Answer.objects.exists()
    answer_request(person("cem"), request.id, YES)
    assert Answer.objects.get().by.username == "cem"
    assert kinds(run) == ["request.voted", "request.voted", "request.answered"]


def test_one_rejection_decides_unless_the_policy_says_otherwise(person, ask) -> None:
    first, second = ask(key="a", policy={"need": 2}), ask(key="b", policy={"need": 2, "veto": False})
    for request in (first, second):
        answer_request(person("ana", "reviewer"), request.id, YES)
        answer_request(person("ben", "reviewer"), request.id, NO)
    assert Answer.objects.get().request_id == first.id


def test_a_vote_can_be_taken_back_until_the_matter_is_decided(person, ask) -> None:
    request, ana = ask(policy={"need": 2}), person("ana", "reviewer")
    answer_request(ana, request.id, YES)
    undo_answer(ana, request.id)
    answer_request(person("ben", "reviewer"), request.id, YES)
    assert not Answer.objects.exists()
    answer_request(ana, request.id, YES)
    assert Answer.objects.exists()
    with pytest.raises(WrongState):
        undo_answer(ana, request.id)


def test_an_answer_to_what_was_not_shown_is_refused_with_the_difference(person, ask) -> None:
    request, ana = ask(card={"subject": "Pay 5?"}), person("ana", "reviewer")
    seen = fingerprint(request.card, request.answer_schema)
    request.card = {"subject": "Pay 500?"}
    request.save()
    with pytest.raises(Changed) as refused:
        answer_request(ana, request.id, YES, seen=seen)
    assert refused.value.facts["after"] == {"subject": "Pay 500?"}
    assert not Reply.objects.exists()
    answer_request(ana, request.id, YES, seen=refused.value.facts["now"])
    assert Shown.objects.get().request == request.id


def test_who_stands_in_for_an_absent_person_decides_with_their_right(person, ask) -> None:
    ben, ana = person("ben", "reviewer"), person("ana", "reviewer")
    ana.user.groups.add(Group.objects.create(name="finance"))
    request = ask(by=["finance"])
    with pytest.raises(NotAllowed):
        answer_request(ben, request.id, YES)
    now = timezone.now()
    Absence.objects.create(user=ana.user, delegate=ben.user, since=now, until=now + timedelta(days=1))
    reply = answer_request(viewer_for(ben.user), request.id, YES)
    assert (reply.right, reply.acting_for) == ("group finance, on behalf of ana", "ana")


def test_standing_in_is_no_way_around_four_eyes(person, ask, run) -> None:
    ana, ben = person("ana", "reviewer"), person("ben", "reviewer")
    Run.objects.update(created_by=User.objects.get(username="ana"))
    request, now = ask(by=["ana"], not_by=["requester"]), timezone.now()
    Absence.objects.create(user=ana.user, delegate=ben.user, since=now, until=now + timedelta(days=1))
    with pytest.raises(NotAllowed):
        answer_request(viewer_for(ben.user), request.id, YES)


def test_an_operator_may_decide_instead_of_others_with_a_reason_and_never_around_four_eyes(person, ask) -> None:
    otto, request = person("otto", "operator"), ask(by=["finance"], not_by=["requester"])
    with pytest.raises(NotAllowed):
        answer_request(person("ana", "reviewer"), request.id, YES, override=True, reason="hurry")
    with pytest.raises(Invalid, match="fit"):
        answer_request(otto, request.id, YES, override=True)
    Run.objects.update(created_by=otto.user)
    with pytest.raises(NotAllowed, match="second person"):
        answer_request(otto, request.id, YES, override=True, reason="hurry")
    Run.objects.update(created_by=None)
    assert answer_request(otto, request.id, YES, override=True, reason="hurry").stands == "overrode"
    assert AuditEntry.objects.get().verb == "override"


def test_the_assigned_person_may_answer(person, ask) -> None:
    ana = person("ana", "reviewer")
    assert answer_request(ana, ask(by=["finance"], assignee=ana.user).id, YES).right == "assigned"
