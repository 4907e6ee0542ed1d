"""What people do around a decision: look, take over, comment, amend."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from checkpoints.models import (
    AuditEntry,
    Comment,
    Draft,
    Event,
    Grant,
    HumanRequest,
    Notice,
    Presence,
    Reply,
    Run,
    Shown,
    Snooze,
)
from tests.actions.requests.conftest import CARD, told
from wfdash import pubsub
from wfdash.actions.requests import collaboration
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import (
    amend_request,
    ask_back,
    assign_request,
    comment_on,
    drop_draft,
    leave_request,
    reply_to_ask,
    save_draft,
    snooze_request,
    take_over,
    wake_snoozed,
    watch_request,
)
from wfdash.domain.errors import Changed, Invalid, NoLongerOpen, NotAllowed, NotFound, WrongState
from wfdash.domain.hash_chain import fingerprint
from wfdash.queries.requests.inbox import count_open, count_tabs, read_inbox

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


def test_a_comment_tells_whom_it_mentions_if_they_may_see_it(person, ask, run) -> None:
    ana, request = person("ana", "reviewer"), ask()
    person("ben", "reviewer")
    person("sam")
    comment = comment_on(ana, request.id, "What do you think, @ben? And @sam, and ana@ben.example.")
    assert comment.mentions == ["ben"]
    assert (told("ben"), told("sam"), told("ana")) == (["mentioned"], [], [])
    assert Event.objects.get(run=run).kind == "request.commented"
    assert AuditEntry.objects.get().facts["text"].startswith("What do you think")


@pytest.mark.parametrize("text", ["", "   ", "x" * 20_001])
def test_a_comment_says_something_and_not_too_much(text, person, ask) -> None:
    with pytest.raises(Invalid):
        comment_on(person("ana", "reviewer"), ask().id, text)


def test_strangers_do_not_comment(person, ask) -> None:
    with pytest.raises(NotFound):
        comment_on(person("sam"), ask().id, "Hello")


def test_who_is_not_shown_the_card_does_not_comment(person, ask) -> None:
    with pytest.raises(NotAllowed):
        comment_on(person("ana", "reviewer"), ask(by=["finance"]).id, "Hello")
    assert not Comment.objects.exists()


def test_asking_back_waits_for_the_requester_whose_reply_ends_it(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask()
    ask_back(ana, request.id, "Which fair?")
    assert HumanRequest.objects.get().asked is not None
    assert told("olga") == ["asked"]
    reply_to_ask(olga, request.id, "The one in June.")
    assert HumanRequest.objects.get().asked is None
    assert told("ana") == ["replied"]
    assert [line.kind for line in Comment.objects.order_by("at")] == ["ask", "reply"]


def test_what_was_asked_back_may_be_decided_all_the_same(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask()
    ask_back(ana, request.id, "Which fair?")
    answer_request(ana, request.id, {"action": "approve"})


def test_who_started_it_without_any_other_right_may_still_reply(person, ask, run) -> None:
    nora, request = person("nora"), ask()
    Run.objects.filter(pk=run.pk).update(created_by=nora.user)
    ask_back(person("ana", "reviewer"), request.id, "Why?")
    reply_to_ask(nora, request.id, "Because.")
    with pytest.raises(NotAllowed):
        answer_request(nora, request.id, {"action": "approve"})


def test_a_run_that_no_one_started_asks_its_operators(person, ask) -> None:
    person("otto", "operator")
    ask_back(person("ana", "reviewer"), ask().id, "Who knows?")
    assert told("otto") == ["asked"]


def test_no_one_else_replies_and_no_one_unasked(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask()
    with pytest.raises(WrongState):
        reply_to_ask(olga, request.id, "Unasked")
    ask_back(ana, request.id, "Which fair?")
    with pytest.raises(NotAllowed):
        reply_to_ask(ana, request.id, "I answer myself")


PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30).decode()


def test_an_amended_request_is_shown_with_the_difference(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask(card=CARD)
    seen = fingerprint(CARD, request.answer_schema)
    part = {"kind": "text", "title": "Offer", "value": "900 net"}
    amend_request(olga, request.id, body="It is in June.", evidence=[part])
    card = HumanRequest.objects.get().card
    assert card["body"] == "For the fair.\n\n**Added by olga:**\n\nIt is in June."
    assert (card["evidence"], card["proposal"]) == ([part], CARD["proposal"])
    assert json.loads(Shown.objects.get().body)["card"] == CARD
    with pytest.raises(Changed) as changed:
        answer_request(ana, request.id, {"action": "approve"}, seen=seen)
    assert (changed.value.facts["before"], changed.value.facts["after"]) == (CARD, card)


def test_votes_on_the_former_card_count_no_longer(person, ask, olga) -> None:
    ana, _ = person("ana", "reviewer"), person("ben", "reviewer")
    request = ask(card=CARD, policy={"need": 2})
    answer_request(ana, request.id, {"action": "approve"})
    amend_request(olga, request.id, body="More.")
    assert Reply.objects.get().undone is not None
    assert told("ana") == ["opened"]


def test_adding_information_answers_the_question_for_it(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask(card=CARD)
    ask_back(ana, request.id, "Until when?")
    amend_request(olga, request.id, body="It is in June.")
    assert HumanRequest.objects.get().asked is None
    assert told("ana") == ["replied"]
    ask_back(ana, request.id, "And who pays?")
    amend_request(olga, request.id, evidence=[{"kind": "text", "title": "Offer", "value": "900 net"}])
    texts = {note.payload["text"] for note in Notice.objects.filter(kind="replied")}
    assert texts == {"It is in June.", "Offer"}


def test_amending_is_for_the_requester_while_it_is_open_and_says_something(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask(card=CARD)
    with pytest.raises(NotAllowed):
        amend_request(ana, request.id, body="More.")
    with pytest.raises(Invalid):
        amend_request(olga, request.id, body="  ")
    answer_request(ana, request.id, {"action": "approve"})
    with pytest.raises(NoLongerOpen):
        amend_request(olga, request.id, body="More.")


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"kind": "nonsense", "value": "x"}, []),
        ({"kind": "text", "title": "No value"}, ["text", "value"]),
        ({"kind": "link", "value": "javascript:alert(1)"}, ["link", "url"]),
        ({"kind": "text", "value": "\x00"}, ["value"]),
        ({"kind": "text", "value": "\ud800"}, ["value"]),
        ({"kind": "json", "value": float("nan")}, ["value"]),
        ({"kind": "image", "value": base64.b64encode(b"<svg/>").decode()}, ["image"]),
    ],
)
def test_evidence_is_judged_as_that_of_a_step(person, ask, olga, part, place) -> None:
    with pytest.raises(Invalid) as refused:
        amend_request(olga, ask(card=CARD).id, evidence=[part])
    assert refused.value.errors[0]["loc"] == ["evidence", 0, *place]
    assert HumanRequest.objects.get().card == CARD


def test_the_audit_names_what_was_added_and_the_card_holds_it(person, ask, olga) -> None:
    amend_request(olga, ask(card=CARD).id, evidence=[{"kind": "text", "title": "Offer", "value": "x" * 5000}])
    (named,) = AuditEntry.objects.get(verb="amend").facts["evidence"]
    assert (named["kind"], named["title"], len(named["sha256"])) == ("text", "Offer", 64)
    assert HumanRequest.objects.get().card["evidence"][0]["value"] == "x" * 5000


def test_a_card_does_not_grow_beyond_what_one_holds(person, ask, olga) -> None:
    request = ask(card=CARD)
    parts = [{"kind": "text", "value": "x" * 3_000_000}]
    for _ in range(2):
        amend_request(olga, request.id, evidence=parts)
    for more, words in ((parts, "the limit is 8 mb"), ([{"kind": "text", "value": "x"}] * 21, "at most 20 items")):
        with pytest.raises(Invalid) as refused:
            amend_request(olga, request.id, evidence=more)
        assert words in refused.value.errors[0]["msg"].lower()


def test_the_earlier_versions_that_are_kept_are_bounded(person, ask, olga, monkeypatch) -> None:
    monkeypatch.setattr(collaboration, "MOST_KEPT", 3_000)
    request = ask(card=CARD)
    with pytest.raises(Invalid) as refused:
        for number in range(20):
            amend_request(olga, request.id, body=f"More {number}.")
    assert "size limit" in refused.value.errors[0]["msg"]
    assert sum(len(row.body) for row in Shown.objects.all()) < 4_000


def test_a_snoozed_request_leaves_ones_own_queue_and_comes_back_with_a_notification(person, ask):
    question = ask()
    ana, ben, hour = person("ana", "reviewer"), person("ben", "reviewer"), timedelta(hours=1)
    snooze_request(ana, question.pk, timezone.now() + hour)
    snooze_request(ana, question.pk, timezone.now() + 2 * hour)
    assert [count_open(one) for one in (ana, ben)] == [0, 1]
    (row,) = read_inbox(ana, "snoozed").items
    assert row.snoozed is not None
    assert wake_snoozed() == 0
    Snooze.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert (count_open(ana), read_inbox(ana, "snoozed").items) == (1, ())
    assert (wake_snoozed(), told("ana"), told("ben")) == (1, ["snoozed"], [])
    assert wake_snoozed() == 0


def test_a_request_that_was_answered_is_not_brought_back(person, ask):
    question, ana = ask(), person("ana", "reviewer")
    snooze_request(ana, question.pk, timezone.now() + timedelta(hours=1))
    answer_request(person("ben", "reviewer"), question.pk, {"action": "approve"})
    assert count_tabs(ana)["snoozed"] == 0
    Snooze.objects.update(until=timezone.now())
    assert (wake_snoozed(), told("ana")) == (1, [])
    with pytest.raises(NoLongerOpen):
        snooze_request(ana, question.pk, timezone.now() + timedelta(hours=1))


def test_who_may_no_longer_see_a_request_is_not_reminded_of_it(person, ask):
    snooze_request(person("ana", "reviewer"), ask().pk, timezone.now() + timedelta(hours=1))
    Grant.objects.all().delete()
    Snooze.objects.update(until=timezone.now())
    assert (wake_snoozed(), told("ana"), Snooze.objects.count()) == (1, [], 0)


@pytest.mark.parametrize("hours", [-1, 24 * 400])
def test_a_reminder_is_in_the_future_and_within_a_year(person, ask, hours):
    question = ask()
    with pytest.raises(Invalid):
        snooze_request(person("ana", "reviewer"), question.pk, timezone.now() + timedelta(hours=hours))
