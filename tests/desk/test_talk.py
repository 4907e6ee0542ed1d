from __future__ import annotations

import json

import pytest

from checkpoints.models import AuditEntry, Comment, Event, HumanRequest, Notice, Reply, Run, Shown
from wfdash import desk
from wfdash.errors import Changed, Invalid, NoLongerOpen, NotAllowed, NotFound, WrongState
from wfdash.seen import fingerprint

pytestmark = pytest.mark.django_db

CARD = {"subject": "Pay 900?", "body": "For the fair.", "proposal": {"amount": 900}}


@pytest.fixture
def olga(person, run):
    """Who started the run, and may otherwise only look."""
    olga = person("olga", "viewer")
    Run.objects.filter(pk=run.pk).update(created_by=olga.user)
    return olga


def told(name: str) -> list[str]:
    return [note.kind for note in Notice.objects.filter(channel="browser", user__username=name).order_by("id")]


def test_a_comment_tells_whom_it_mentions_if_they_may_see_it(person, ask, run) -> None:
    ana, request = person("ana", "reviewer"), ask()
    person("ben", "reviewer")
    person("sam")
    comment = desk.comment_on(ana, request.id, "What do you think, @ben? And @sam, and ana@ben.example.")
    assert comment.mentions == ["ben"]
    assert (told("ben"), told("sam"), told("ana")) == (["mentioned"], [], [])
    assert Event.objects.get(run=run).kind == "request.commented"
    assert AuditEntry.objects.get().facts["text"].startswith("What do you think")


@pytest.mark.parametrize("text", ["", "   ", "x" * 20_001])
def test_a_comment_says_something_and_not_too_much(text, person, ask) -> None:
    with pytest.raises(Invalid):
        desk.comment_on(person("ana", "reviewer"), ask().id, text)


def test_strangers_do_not_comment(person, ask) -> None:
    with pytest.raises(NotFound):
        desk.comment_on(person("sam"), ask().id, "Hello")


def test_asking_back_waits_for_the_requester_whose_reply_ends_it(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask()
    desk.ask_back(ana, request.id, "Which fair?")
    assert HumanRequest.objects.get().asked is not None
    assert told("olga") == ["asked"]
    desk.reply_to_ask(olga, request.id, "The one in June.")
    assert HumanRequest.objects.get().asked is None
    assert told("ana") == ["replied"]
    assert [line.kind for line in Comment.objects.order_by("at")] == ["ask", "reply"]


def test_what_was_asked_back_may_be_decided_all_the_same(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask()
    desk.ask_back(ana, request.id, "Which fair?")
    desk.answer_request(ana, request.id, {"action": "approve"})


def test_who_started_it_without_any_other_right_may_still_reply(person, ask, run) -> None:
    nora, request = person("nora"), ask()
    Run.objects.filter(pk=run.pk).update(created_by=nora.user)
    desk.ask_back(person("ana", "reviewer"), request.id, "Why?")
    desk.reply_to_ask(nora, request.id, "Because.")
    with pytest.raises(NotAllowed):
        desk.answer_request(nora, request.id, {"action": "approve"})


def test_a_run_that_nobody_started_asks_its_operators(person, ask) -> None:
    person("otto", "operator")
    desk.ask_back(person("ana", "reviewer"), ask().id, "Who knows?")
    assert told("otto") == ["asked"]


def test_nobody_else_replies_and_nobody_unasked(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask()
    with pytest.raises(WrongState):
        desk.reply_to_ask(olga, request.id, "Unasked")
    desk.ask_back(ana, request.id, "Which fair?")
    with pytest.raises(NotAllowed):
        desk.reply_to_ask(ana, request.id, "I answer myself")


def test_an_amended_request_is_shown_with_the_difference(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask(card=CARD)
    seen = fingerprint(CARD, request.answer_schema)
    part = {"kind": "text", "title": "Offer", "value": "900 net"}
    desk.amend_request(olga, request.id, body="It is in June.", evidence=[part])
    card = HumanRequest.objects.get().card
    assert card["body"] == "For the fair.\n\n**Added by olga:**\n\nIt is in June."
    assert (card["evidence"], card["proposal"]) == ([part], CARD["proposal"])
    assert json.loads(Shown.objects.get().body)["card"] == CARD
    with pytest.raises(Changed) as changed:
        desk.answer_request(ana, request.id, {"action": "approve"}, seen=seen)
    assert (changed.value.facts["before"], changed.value.facts["after"]) == (CARD, card)


def test_votes_on_the_former_card_count_no_longer(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask(card=CARD, policy={"need": 2})
    desk.answer_request(ana, request.id, {"action": "approve"})
    desk.amend_request(olga, request.id, body="More.")
    assert Reply.objects.get().undone is not None
    assert told("ana") == ["opened"]


def test_amending_is_for_the_requester_while_it_is_open_and_says_something(person, ask, olga) -> None:
    ana, request = person("ana", "reviewer"), ask(card=CARD)
    with pytest.raises(NotAllowed):
        desk.amend_request(ana, request.id, body="More.")
    with pytest.raises(Invalid):
        desk.amend_request(olga, request.id, body="  ")
    desk.answer_request(ana, request.id, {"action": "approve"})
    with pytest.raises(NoLongerOpen):
        desk.amend_request(olga, request.id, body="More.")
