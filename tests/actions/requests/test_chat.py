"""Two people in a workspace of Slack: what they are sent, what their buttons do, and who cannot press them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import AuditEntry, ChatAccount, ChatMessage, HumanRequest, Notice, Preference, Reply
from tests.notifications.slack_workspace import SECRET, TEAM, Workspace, form_of, signed, workspace
from wfdash.access.viewer import Viewer
from wfdash.actions.people.accounts import deactivate_person
from wfdash.actions.requests import chat
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import assign_request
from wfdash.domain.errors import AlreadyAnswered
from wfdash.notifications.write import notify
from wfdash.questions.cards import Approval, prepare
from wfdash.web.pages import hooks
from wfdash.worker.outbox import deliver, due_bundles

Ask = Callable[..., HumanRequest]


@pytest.fixture
def slack(settings, monkeypatch) -> Iterator[Workspace]:
    with workspace() as found:
        settings.WFDASH_SLACK_API, settings.WFDASH_SLACK_TEAM = found.url, TEAM
        settings.WFDASH_SLACK_TOKEN, settings.WFDASH_SLACK_SECRET = "xoxb-1", SECRET
        monkeypatch.setattr(chat.connections, "close_all", lambda: None)
        monkeypatch.setattr(hooks, "Thread", AtOnce)
        yield found


class AtOnce:
    """A thread that is none: the test's transaction is seen by its own connection alone."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        self.start = target


def connect(viewer: Viewer, person: str, team: str = TEAM) -> Viewer:
    code = chat.begin_connection(viewer)
    said = post({"command": "/wfdash", "text": f"connect {code}", "team_id": team, "user_id": person}).json()["text"]
    assert said.startswith("Connected with" if team == TEAM else "This code is not valid")
    return viewer


@pytest.fixture
def ana(slack: Workspace, person) -> Viewer:
    return connect(person("ana", "reviewer"), "UANA")


@pytest.fixture
def ben(slack: Workspace, person) -> Viewer:
    return connect(person("ben", "reviewer"), "UBEN")


@pytest.fixture
def approval(ask: Ask, settings) -> Ask:
    def make(card: Approval | None = None, **facts: Any) -> HumanRequest:
        settings.WFDASH_UNDO = facts.pop("undo", 0)
        given = {"subject": "Refund 40", "current": {"amount": 30}, "proposal": {"amount": 40}}
        asking = prepare(card or Approval(**given, consequence="The customer gets 40"), None)
        return ask(card=asking.card, answer_schema=asking.schema, created=timezone.now(), **facts)

    return make


def post(payload: dict[str, Any], **options: Any) -> Any:
    body = form_of(payload)
    headers = options.pop("headers", None) or signed(body, **options)
    return Client().post("/slack/", body, content_type="application/x-www-form-urlencoded", headers=headers)


def send(request: HumanRequest, *viewers: Viewer, kind: str = "opened") -> None:
    with write():
        notify(kind, request, [viewer.user for viewer in viewers])
    for bundle in due_bundles():
        if bundle.channel == "slack":
            deliver(bundle)


def test_a_message_says_what_is_asked_and_a_button_answers_as_the_person(
    slack: Workspace, ana: Viewer, approval: Ask
) -> None:
    request = approval()
    send(request, ana)
    (place,) = slack.posted()
    said = slack.texts(place)
    assert "Review requested: Refund 40" in said
    assert "Difference\n-amount: 30\n+amount: 40" in said
    assert "Consequence\nThe customer gets 40" in said
    assert {*slack.buttons(place)} == {"approve", "reject"}
    link = slack.messages[place]["blocks"][-1]["elements"][-1]
    assert link["url"].endswith(f"/requests/{request.pk}/"), "the address signs no one in"
    assert post(slack.press(place, "approve", "UANA")).status_code == 200
    reply = Reply.objects.get()
    assert (reply.by, reply.verdict, reply.via) == (ana.user, "approve", "slack")
    assert "Approved by ana" in slack.texts(place)
    assert not slack.buttons(place)
    assert AuditEntry.objects.get(verb="answer").facts["via"] == "slack"


@pytest.mark.parametrize(
    "card",
    [
        Approval(subject="Rename", proposal="Rename the file" + "\n" * 2_800 + "rm -rf /"),
        Approval(subject="Change", current="a" * 3_000 + "1", proposal="a" * 3_000 + "2"),
        Approval(subject="Rename the file" + " " * 200 + "and delete all others", proposal="x"),
    ],
    ids=["behind blank lines", "behind what is the same", "in a long subject"],
)
def test_what_a_message_hides_has_no_button(slack: Workspace, ana: Viewer, approval: Ask, card: Approval) -> None:
    send(approval(card), ana)
    (place,) = slack.posted()
    assert not slack.buttons(place)


def test_a_rejection_has_its_reason_from_the_modal(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    send(approval(), ana)
    (place,) = slack.posted()
    post(slack.press(place, "reject", "UANA"))
    assert not Reply.objects.exists(), "the modal asks first"
    said = post(slack.submit("UANA", reason="<!channel> Too much"))
    assert said.content == b""
    assert (Reply.objects.get().verdict, Reply.objects.get().reason) == ("reject", "<!channel> Too much")
    assert "Rejected by ana: <!channel> Too much" in slack.texts(place)


def test_a_text_is_edited_in_the_modal(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    send(approval(Approval(subject="Send?", proposal="Dear all", edit=str)), ana)
    (place,) = slack.posted()
    post(slack.press(place, "edit", "UANA"))
    view = next(given["view"] for method, given in slack.calls if method == "views.open")
    assert view["blocks"][1]["element"]["initial_value"] == "Dear all"
    post(slack.submit("UANA", edited="Dear Kim"))
    assert Reply.objects.get().value == {"action": "edit", "edited": "Dear Kim"}


def test_decided_on_the_page_the_message_says_so_and_its_button_decides_nothing(
    slack: Workspace, ana: Viewer, ben: Viewer, approval: Ask
) -> None:
    request = approval()
    send(request, ana, ben)
    first, second = slack.posted()
    late = slack.press(second, "approve", "UBEN")
    answer_request(ana, request.pk, {"action": "reject"}, via="page")
    assert post(late).status_code == 200
    assert Reply.objects.count() == 1
    assert "Rejected by ana" in slack.texts(second)
    chat.ChatFollower().look()
    assert "Rejected by ana" in slack.texts(first)
    assert not chat.FOLLOWED.exists()
    calls = len(slack.calls)
    chat.ChatFollower().look()
    assert len(slack.calls) == calls


def test_page_and_slack_race_for_one_answer_and_the_loser_is_told(
    slack: Workspace, ana: Viewer, ben: Viewer, approval: Ask, monkeypatch
) -> None:
    request = approval()
    send(request, ben)
    (place,) = slack.posted()
    answer = answer_request

    def second(*args: Any, **options: Any) -> Reply:
        answer(ana, request.pk, {"action": "reject"}, via="page")
        return answer(*args, **options)

    monkeypatch.setattr(chat, "answer_request", second)
    post(slack.press(place, "approve", "UBEN"))
    assert [reply.by for reply in Reply.objects.all()] == [ana.user]
    assert "Already answered by ana (rejected" in slack.texts(place)
    with pytest.raises(AlreadyAnswered):
        answer(ben, request.pk, {"action": "approve"})


def test_handed_over_withdrawn_and_changed_requests_are_said_in_place(
    slack: Workspace, ana: Viewer, ben: Viewer, approval: Ask
) -> None:
    request = approval()
    send(request, ana)
    (place,) = slack.posted()
    with write():
        assign_request(ana, request.pk, "ben")
    chat.ChatFollower().look()
    assert "Assigned to ben" in slack.texts(place)
    before = slack.press(place, "approve", "UANA")
    HumanRequest.objects.filter(pk=request.pk).update(card=request.card | {"proposal": {"amount": 41}})
    post(before)
    assert not Reply.objects.exists()
    assert "+amount: 41" in slack.texts(place)
    HumanRequest.objects.filter(pk=request.pk).update(closed=timezone.now(), closed_as="withdrawn")
    chat.ChatFollower().look()
    assert "Withdrawn" in slack.texts(place)
    assert not slack.buttons(place)


def test_an_answer_can_be_undone_in_slack(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    send(approval(undo=60), ana)
    (place,) = slack.posted()
    post(slack.press(place, "approve", "UANA"))
    assert {*slack.buttons(place)} == {chat.UNDO}
    post(slack.press(place, chat.UNDO, "UANA"))
    assert Reply.objects.get().undone
    assert {*slack.buttons(place)} == {"approve", "reject"}


def test_four_eyes_hold_in_slack(slack: Workspace, ana: Viewer, ben: Viewer, approval: Ask) -> None:
    request = approval(policy={"need": 2})
    send(request, ana, ben)
    first, second = slack.posted()
    again = slack.press(first, "approve", "UANA")
    post(slack.press(first, "approve", "UANA"))
    post(again)
    assert Reply.objects.count() == 1
    assert "You answered: Approved" in slack.texts(first)
    post(slack.press(second, "approve", "UBEN"))
    request.refresh_from_db()
    assert request.answered


def test_a_double_click_and_a_replay_are_one_decision(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    send(approval(), ana)
    (place,) = slack.posted()
    once, twice = slack.press(place, "approve", "UANA"), slack.press(place, "reject", "UANA")
    for payload in (once, twice, once):
        assert post(payload).status_code == 200
    assert [reply.verdict for reply in Reply.objects.all()] == ["approve"]


def test_a_high_risk_a_large_card_pictures_and_many_fields_are_a_link(
    slack: Workspace, ana: Viewer, approval: Ask
) -> None:
    file = {"kind": "table", "title": "Lines", "value": {"columns": ["a"], "rows": [["1"]]}}
    cards = [
        Approval(subject="One", proposal="x", risk="high"),
        Approval(subject="Two", proposal="x" * 5_000),
        Approval(subject="Three", proposal="x", evidence=[file]),
    ]
    for card in cards:
        send(approval(card, key=card.subject), ana)
    for place in slack.posted():
        assert not slack.buttons(place)
        assert "Open it in wfdash to decide" in slack.texts(place)
    request = approval(key="more")
    HumanRequest.objects.filter(pk=request.pk).update(card=request.card | {"of_a_framework": "pay"})
    request.refresh_from_db()
    send(request, ana)
    assert not slack.buttons(slack.posted()[-1]), "a part that the message does not have"
    amount = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    send(approval(Approval(subject="Four", proposal={"amount": 4}, edit=amount), key="four"), ana)
    assert {*slack.buttons(slack.posted()[-1])} == {"approve", "reject"}, "the edit is a link"


def test_a_button_that_was_not_offered_does_nothing(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    request = approval()
    send(request, ana)
    (place,) = slack.posted()
    payload = slack.press(place, "approve", "UANA")
    card = request.card | {"risk": "high"}
    HumanRequest.objects.filter(pk=request.pk).update(card=card)
    name, _, action = json.loads(payload["actions"][0]["value"])
    payload["actions"][0]["value"] = json.dumps([name, chat.read_request(ana, request.pk).seen, action])
    post(payload)
    assert not Reply.objects.exists()


def test_what_slack_did_not_sign_a_moment_ago_is_refused(
    slack: Workspace, ana: Viewer, approval: Ask, settings
) -> None:
    send(approval(), ana)
    payload = slack.press(slack.posted()[0], "approve", "UANA")
    good = signed(form_of(payload))
    forged = [
        signed(form_of(payload), secret="other"),
        signed(form_of(payload), at=time.time() - 301),
        signed(form_of(payload), at=time.time() + 301),
        signed(form_of(payload) + "x"),
        good | {"x-slack-request-timestamp": "soon"},
        good | {"x-slack-signature": "v0=\u00e9"},
        {"x-none": "1"},
    ]
    for headers in forged:
        assert post(payload, headers=headers).status_code == 401
    assert post(payload | {"pad": "x" * 1_000_001}).status_code == 401
    settings.WFDASH_SLACK_SECRET = ""
    assert post(payload, secret="x").status_code == 401
    assert not Reply.objects.exists()


def test_strangers_decide_nothing(slack: Workspace, ana: Viewer, ben: Viewer, approval: Ask, person) -> None:
    send(approval(), ana)
    (place,) = slack.posted()
    for user, team in (("UEVE", TEAM), ("UANA", "T2"), ("UBEN", TEAM), ("", TEAM)):
        assert post(slack.press(place, "approve", user, team)).status_code == 200
    press = slack.press(place, "approve", "UANA")
    deactivate_person(person("root", "admin"), "ana")
    post(press)
    chat.disconnect(ben)
    assert not ChatAccount.objects.exists()
    assert not Reply.objects.exists()


def test_a_removed_right_is_said_and_decides_nothing(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    request = approval(by=["ana"])
    send(request, ana)
    (place,) = slack.posted()
    HumanRequest.objects.filter(pk=request.pk).update(by=["kim"])
    post(slack.press(place, "approve", "UANA"))
    assert not Reply.objects.exists()
    assert not slack.buttons(place)


def test_a_code_connects_once_soon_and_in_this_workspace(slack: Workspace, person) -> None:
    ana, ben = person("ana", "reviewer"), person("ben", "reviewer")
    connect(ana, "UANA", team="T2")
    code = chat.begin_connection(ana)
    command = {"command": "/wfdash", "text": f"connect {code}", "team_id": TEAM, "user_id": "UANA"}
    assert "Connected with ana" in post(command).json()["text"]
    assert "not valid" in post(command | {"user_id": "UEVE"}).json()["text"]
    assert ChatAccount.objects.get().uid == "UANA"
    taken = chat.begin_connection(ben)
    assert "another account" in post(command | {"text": f"connect {taken}"}).json()["text"]
    ChatAccount.objects.filter(user=ben.user).update(at=timezone.now() - timedelta(minutes=11))
    assert "not valid" in post(command | {"text": f"connect {taken}", "user_id": "UBEN"}).json()["text"]
    for empty in ("", "connect", "help"):
        assert "not valid" in post(command | {"text": empty, "user_id": "UEVE"}).json()["text"]
    assert AuditEntry.objects.filter(verb="connect chat").count() == 1


def test_no_text_of_an_author_is_markup(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    evil = "<!channel> <https://evil.example|Approve> <@UBEN> *x* ```y```"
    send(approval(Approval(subject=evil, body=evil, proposal={evil: evil}, labels={"approve": evil})), ana)
    (given,) = slack.messages.values()
    assert "<!" not in given["text"]
    assert "<@" not in given["text"], "the one text that Slack reads as markup is escaped"
    assert "mrkdwn" not in json.dumps(given)


def test_a_digest_and_quiet_hours_hold_messages_as_mails(slack: Workspace, ana: Viewer, approval: Ask) -> None:
    Preference.objects.create(user=ana.user, data={"digest": "daily", "zone": "UTC"})
    for n in range(7):
        request = approval(key=str(n))
        send(request, ana)
    assert not slack.posted()
    Notice.objects.filter(channel="slack").update(due=timezone.now())
    send(request)
    (place,) = slack.posted()
    assert "7 notifications from wfdash" in slack.texts(place)
    assert not slack.buttons(place)


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up <HTTPError 429:ResourceWarning")  # slack_sdk leaves it open
def test_slack_is_not_asked_again_before_it_wants_and_nothing_is_sent_twice(
    slack: Workspace, ana: Viewer, approval: Ask
) -> None:
    slack.refuses["chat.postMessage"] = (429, {"Retry-After": "300"}, "ratelimited")
    request = approval()
    send(request, ana)
    notice = Notice.objects.get(channel="slack")
    assert notice.due > timezone.now() + timedelta(seconds=290)
    assert not slack.posted()
    Notice.objects.update(due=timezone.now())
    send(request)
    assert len(slack.posted()) == 1
    slack.refuses["chat.update"] = (429, {"Retry-After": "60"}, "ratelimited")
    answer_request(ana, request.pk, {"action": "approve"})
    follower = chat.ChatFollower()
    follower.look()
    calls = len(slack.calls)
    follower.look()
    assert len(slack.calls) == calls
    assert follower.not_before > time.monotonic() + 50
    chat.ChatFollower().look()
    assert "Approved by ana" in slack.texts(slack.posted()[0])


def test_a_worker_killed_between_sending_and_recording_sends_no_second_message(
    slack: Workspace, ana: Viewer, approval: Ask, monkeypatch
) -> None:
    post_message = chat.SERVICE.post

    def die(*args: Any, **options: Any) -> str:
        post_message(*args, **options)
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(chat.SERVICE, "post", die)
        send(approval(), ana)
    assert len(slack.posted()) == 1
    Notice.objects.update(due=timezone.now())
    for bundle in due_bundles():
        deliver(bundle)
    assert len(slack.posted()) == 1
    assert ChatMessage.objects.get().place == slack.posted()[0]


def test_an_outage_of_slack_delays_no_decision(slack: Workspace, ana: Viewer, approval: Ask, settings, caplog) -> None:
    send(approval(), ana)
    press = slack.press(slack.posted()[0], "approve", "UANA")
    settings.WFDASH_SLACK_API = "http://127.0.0.1:9/"
    assert post(press).status_code == 200
    assert Reply.objects.get().verdict == "approve"
    assert "could not be informed" in caplog.text
    assert "xoxb-1" not in caplog.text
    settings.WFDASH_SLACK_API = slack.url
    chat.ChatFollower().look()
    assert "Approved by ana" in slack.texts(slack.posted()[0])
