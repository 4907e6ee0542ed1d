from __future__ import annotations

import pytest

from checkpoints.models import AuditEntry, Comment, Event, HumanRequest, Run
from tests.actions.requests.conftest import told
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import ask_back, comment_on, reply_to_ask
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState

pytestmark = pytest.mark.django_db


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
