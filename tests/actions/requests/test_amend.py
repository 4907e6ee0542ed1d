"""What is added to an open request, and how much."""

from __future__ import annotations

import base64
import json

import pytest

from checkpoints.models import AuditEntry, HumanRequest, Notice, Reply, Shown
from tests.actions.requests.conftest import CARD, told
from wfdash.actions.requests import collaboration
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import amend_request, ask_back
from wfdash.domain.errors import Changed, Invalid, NoLongerOpen, NotAllowed
from wfdash.domain.hash_chain import fingerprint

pytestmark = pytest.mark.django_db

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
