from __future__ import annotations

import logging
from urllib.parse import urlsplit

import pytest
from django.test import Client

from checkpoints.models import Answer, Grant, HumanRequest, Reply, UsedLink
from tests.people import ask, make_people, make_run, viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.answer_links import answer_link
from wfdash.telemetry.logs import MaskLinks


@pytest.fixture
def people(db, settings):
    settings.WFDASH_UNDO = 0
    return make_people()


@pytest.fixture
def request_(people) -> HumanRequest:
    return ask(make_run(), risk=1, card={"subject": "Pay 900?", "risk": "low", "actions": actions()})


def actions() -> list[dict[str, object]]:
    from tests.people import ACTIONS

    return ACTIONS


def path(request: HumanRequest, name: str = "ana") -> str:
    return urlsplit(answer_link(request, viewer(name).user)).path


def text_of(response) -> str:
    return " ".join(response.content.decode().split())


def test_looking_shows_the_card_and_changes_nothing(request_, client: Client) -> None:
    url = path(request_)
    for method in (client.get, client.head, client.get):
        assert method(url).status_code == 200
    shown = text_of(client.get(url))
    assert "Pay 900?" in shown
    assert "Answering as <strong>ana</strong>" in shown
    assert 'value="approve"' in shown
    assert not UsedLink.objects.exists()
    assert not Reply.objects.exists()


def test_the_page_keeps_its_address_to_itself(request_, client: Client) -> None:
    response = client.get(path(request_))
    assert response["Referrer-Policy"] == "same-origin"
    assert "noindex" in response["X-Robots-Tag"]
    assert "no-store" in response["Cache-Control"]
    record = logging.LogRecord("x", logging.INFO, "", 0, "Not Found: %s", (path(request_),), None)
    MaskLinks().filter(record)
    assert record.getMessage() == "Not Found: /answer/…/"


def test_the_button_decides_and_the_link_then_tells_the_outcome(request_, client: Client) -> None:
    url = path(request_)
    response = client.post(url, {"_action": "approve"})
    assert (response.status_code, response["Location"]) == (302, url)
    assert Answer.objects.get().by.username == "ana"
    assert Reply.objects.get().via == "link"
    after = text_of(client.get(url))
    assert "You approved this" in after
    assert 'value="approve"' not in after
    assert client.post(url, {"_action": "reject", "reject.reason": "no"}).status_code == 409
    assert Answer.objects.get().verdict == "approve"


def test_an_answer_by_link_that_is_sent_twice_counts_once(request_, client: Client) -> None:
    url = path(request_)
    for _ in range(2):
        assert client.post(url, {"_action": "approve", "_key": "once"}).status_code == 302
    assert Reply.objects.count() == 1
    assert client.post(url, {"_action": "approve", "_key": "again"}).status_code == 409


def test_the_form_needs_the_page_s_own_token(request_) -> None:
    assert Client(enforce_csrf_checks=True).post(path(request_), {"_action": "approve"}).status_code == 403
    assert not Answer.objects.exists()


def test_what_does_not_fit_is_said_and_the_link_stays_good(request_, client: Client) -> None:
    url = path(request_)
    assert client.post(url, {"_action": "reject"}).status_code == 422
    assert client.post(url, {"_action": "approve"}).status_code == 302


def test_a_link_shows_who_was_first(request_, client: Client) -> None:
    url = path(request_)
    answer_request(viewer("ben"), request_.pk, {"action": "approve"})
    assert "ben approved this" in text_of(client.get(url))
    refused = client.post(url, {"_action": "approve"})
    assert refused.status_code == 409
    assert "Already answered by ben" in text_of(refused)


def test_a_changed_request_is_not_answered_through_an_old_link(request_, client: Client) -> None:
    url = path(request_)
    request_.card = {**request_.card, "subject": "Pay 9000?"}
    request_.save(update_fields=["card"])
    assert "changed since the link was sent" in text_of(client.get(url))
    refused = client.post(url, {"_action": "reject", "reject:reason": "Too much for one fair"})
    assert (refused.status_code, text_of(refused).count("changed since")) == (409, 1)
    assert "check the difference" not in text_of(refused)
    assert "Too much for one fair" in text_of(refused)
    assert client.post(url, {"_action": "approve"}).status_code == 409
    assert not Answer.objects.exists()


def test_high_risk_asks_for_a_sign_in(people, client: Client) -> None:
    url = path(ask(make_run(), risk=3))
    shown = text_of(client.get(url))
    assert "Sign in as ana to decide" in shown
    assert 'value="approve"' not in shown
    assert client.post(url, {"_action": "approve"}).status_code == 403
    client.force_login(people["ana"])
    assert client.post(url, {"_action": "approve"}).status_code == 302
    assert Answer.objects.exists()


def test_someone_else_s_session_does_not_act_through_the_link(request_, people, client: Client) -> None:
    client.force_login(people["ben"])
    url = path(request_)
    shown = text_of(client.get(url))
    assert "you are signed in as ben" in shown
    assert request_.card["subject"] not in shown
    assert client.post(url, {"_action": "approve"}).status_code == 403
    assert request_.card["subject"] not in text_of(client.post(url, {"_action": "made-up"}))


def test_links_that_are_none_expired_or_lost_their_right_say_so(request_, people, client: Client, settings) -> None:
    url = path(request_)
    assert client.get("/answer/made-up/").status_code == 404
    assert client.get(url[:-6] + "AAAAA/").status_code == 404
    Grant.objects.filter(user=people["ana"]).update(role="viewer")
    assert "View only" in text_of(client.get(url))
    assert client.post(url, {"_action": "approve"}).status_code == 403
    people["ana"].is_active = False
    people["ana"].save()
    assert client.get(url).status_code == 403
    settings.WFDASH_LINK_DAYS = -1
    assert client.get(url).status_code == 410
    assert not Answer.objects.exists()


def test_an_answer_by_link_can_be_taken_back_there(request_, client: Client, settings) -> None:
    settings.WFDASH_UNDO = 60
    url = path(request_)
    client.post(url, {"_action": "approve"})
    assert "Undo" in text_of(client.get(url))
    assert client.post(url, {"_undo": "1"}).status_code == 302
    assert 'value="approve"' in text_of(client.get(url))
    assert Reply.objects.get().undone is not None
