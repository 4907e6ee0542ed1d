from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from checkpoints.models import AuditEntry, Draft, Event, HumanRequest, Notice, Presence
from wfdash import pubsub
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import (
    assign_request,
    drop_draft,
    leave_request,
    save_draft,
    take_over,
    watch_request,
)
from wfdash.domain.errors import Invalid, NoLongerOpen, NotAllowed, NotFound

pytestmark = pytest.mark.django_db


@pytest.fixture
def rung(django_capture_on_commit_callbacks):
    """``rung(function)`` calls it and returns the requests whose bell rang."""

    def call(function):
        heard: list[str] = []
        leave = pubsub.requests_changed.subscribe(lambda workflow, part, request: heard.append(request))
        with django_capture_on_commit_callbacks(execute=True):
            function()
        leave()
        return heard

    return call


def test_opening_a_request_is_noted_once_and_renewed(person, ask, rung) -> None:
    ana, request = person("ana", "reviewer"), ask()
    assert rung(lambda: watch_request(ana, request.id)) == [request.id]
    assert rung(lambda: watch_request(ana, request.id)) == []
    assert rung(lambda: watch_request(ana, request.id, typing=True)) == [request.id]
    here = Presence.objects.get()
    assert here.typing is not None
    assert here.since <= here.seen


def test_who_comes_back_after_a_while_has_it_open_again(person, ask) -> None:
    ana, request = person("ana", "reviewer"), ask()
    long_ago = timezone.now() - timedelta(minutes=5)
    Presence.objects.create(request=request, user=ana.user, since=long_ago, seen=long_ago, taken=long_ago)
    watch_request(ana, request.id)
    here = Presence.objects.get()
    assert here.since > long_ago
    assert here.taken is None


def test_leaving_ends_the_claim_but_not_that_it_was_seen(person, ask, rung) -> None:
    ana, request = person("ana", "reviewer"), ask()
    watch_request(ana, request.id)
    assert rung(lambda: leave_request(ana, request.id)) == [request.id]
    assert Presence.objects.get().seen < timezone.now() - timedelta(seconds=40)


def test_taking_over_tells_the_other(person, ask) -> None:
    ana, ben, request = person("ana", "reviewer"), person("ben", "reviewer"), ask()
    watch_request(ana, request.id)
    take_over(ben, request.id)
    assert Presence.objects.get(user=ben.user).taken is not None
    assert [(note.user.username, note.kind) for note in Notice.objects.filter(channel="browser")] == [("ana", "taken")]
    assert AuditEntry.objects.get(verb="take").facts["from"] == ["ana"]


def test_a_viewer_takes_nothing_over(person, ask) -> None:
    with pytest.raises(NotAllowed):
        take_over(person("vera", "viewer"), ask().id)


def test_assigning_tells_the_person_the_run_and_the_record(person, ask, run) -> None:
    ana, ben, request = person("ana", "reviewer"), person("ben", "reviewer"), ask()
    assign_request(ana, request.id, "ben")
    assert HumanRequest.objects.get().assignee == ben.user
    assert Event.objects.get(run=run, kind="request.assigned").data["to"] == "ben"
    assert Notice.objects.get(channel="browser").kind == "assigned"
    assign_request(ben, request.id, None)
    assert HumanRequest.objects.get().assignee is None
    assert [entry.facts["to"] for entry in AuditEntry.objects.filter(verb="assign").order_by("n")] == ["ben", ""]


def test_no_one_is_assigned_who_may_not_answer(person, ask) -> None:
    ana, request = person("ana", "reviewer"), ask(by=["ana", "finance"])
    person("vera", "viewer")
    person("ben", "reviewer")
    for name in "vera", "ben", "nobody":
        with pytest.raises(Invalid) as refused:
            assign_request(ana, request.id, name)
        assert refused.value.errors[0]["loc"] == ["to"]
    person("fay", "reviewer").user.groups.add(Group.objects.create(name="finance"))
    assign_request(ana, request.id, "fay")


def test_an_operator_hands_it_to_others_but_never_around_the_second_person(person, ask) -> None:
    otto = person("otto", "operator")
    person("ben", "reviewer")
    assign_request(otto, ask(by=["finance"]).id, "ben")
    with pytest.raises(Invalid):
        assign_request(otto, ask(key="other", not_by=["ben"]).id, "ben")


def test_an_answered_request_is_not_assigned(person, ask) -> None:
    ana, request = person("ana", "reviewer"), ask()
    answer_request(ana, request.id, {"action": "approve"})
    with pytest.raises(NoLongerOpen):
        assign_request(ana, request.id, "ana")


def test_a_draft_is_kept_per_person_and_dropped(person, ask) -> None:
    ana, ben, request = person("ana", "reviewer"), person("ben", "reviewer"), ask()
    save_draft(ana, request.id, {"reason": ["half a"]})
    save_draft(ana, request.id, {"reason": ["half a sentence"]})
    save_draft(ben, request.id, {"reason": ["other"]})
    assert Draft.objects.get(user=ana.user).fields == {"reason": ["half a sentence"]}
    drop_draft(ana, request.id)
    assert [draft.user.username for draft in Draft.objects.all()] == ["ben"]


def test_a_draft_has_its_limit_and_strangers_have_none(person, ask) -> None:
    request = ask()
    with pytest.raises(Invalid):
        save_draft(person("ana", "reviewer"), request.id, {"reason": ["x" * 300_000]})
    with pytest.raises(NotFound):
        save_draft(person("sam"), request.id, {"reason": ["x"]})
