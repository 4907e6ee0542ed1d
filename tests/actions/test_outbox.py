from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Grant, HumanRequest, Notice, Preference, Webhook
from tests.actions.conftest import NOW
from tests.actions.requests.test_deadlines import at_once
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.answer_links import read_link
from wfdash.notifications.letters import ANSWERABLE, Letter, Undeliverable
from wfdash.notifications.write import facts_of_request, notice_to, notify
from wfdash.worker import outbox
from wfdash.worker.outbox import RETRY_SECONDS, Bundle, deliver, due_bundles, forget_old

Ask = Callable[..., HumanRequest]
Person = Callable[..., Viewer]


@pytest.fixture
def ana(person: Person, settings) -> Viewer:
    settings.WFDASH_MAIL = "smtp://localhost"
    settings.WFDASH_URL = "https://wf.example"
    viewer = person("ana", "reviewer")
    viewer.user.email = "ana@example.org"
    viewer.user.save()
    return viewer


@pytest.fixture
def hook(db) -> Webhook:
    return Webhook.objects.create(id="hook", name="h", url="https://example.org", secret="whsec_AAAA", created=NOW)


class Spy:
    """A channel that keeps what it is given, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.letters: list[list[Letter]] = []
        self.error = error

    def __call__(self, receiver: Any, letters: list[Letter]) -> None:
        self.letters.append(letters)
        if self.error is not None:
            raise self.error


def send_all(**channels: Any) -> int:
    return sum(deliver(bundle, channels) if channels else deliver(bundle) for bundle in due_bundles())


def say(kind: str, request: HumanRequest, *viewers: Viewer, **facts: Any) -> None:
    with write():
        notify(kind, request, [viewer.user for viewer in viewers], facts=facts)


def hurry() -> None:
    Notice.objects.filter(sent__isnull=True).update(due=timezone.now())


def test_a_mail_says_what_happened_and_carries_the_person_s_own_link(ask: Ask, ana: Viewer) -> None:
    request = ask(card={"subject": "Pay 900?\r\nBcc: all@example.org", "risk": "low"}, due=NOW)
    say("reminder", request, ana)
    assert send_all() == 1
    (sent,) = mail.outbox
    assert (sent.to, sent.subject) == (["ana@example.org"], "Due soon: Pay 900? Bcc: all@example.org")
    html = str(sent.alternatives[0][0])
    for text in (sent.body, html):
        assert "https://wf.example/settings/" in text
        assert "2026-01-01 00:00 UTC" in text
        assert "Times are in UTC." in text
        assert "sent this to ana" in text
        assert text.count("wf.example") > 2
    token = sent.body.split(f"https://wf.example{'/answer/'}")[1].split("/")[0]
    assert read_link(token).viewer.name == "ana"
    assert token in html
    assert Notice.objects.get(channel="mail").sent is not None
    assert send_all() == 0


def test_a_mail_of_a_decision_says_who_and_why_to_those_who_may_read_it(ask: Ask, ana: Viewer, person: Person) -> None:
    request = ask(card={"subject": "Pay 900?", "risk": "low"}, due=NOW, by=["ana", "ben"])
    cleo = person("cleo", "reviewer")
    cleo.user.email = "cleo@example.org"
    cleo.user.save()
    answer_request(person("ben", "reviewer"), request.pk, {"action": "reject", "reason": "Too <b>dear"})
    say("decided", request, ana, cleo, by="ben", verdict="reject")
    send_all()
    bodies = {sent.to[0]: f"{sent.body}{sent.alternatives[0][0]}" for sent in mail.outbox}
    assert {sent.subject for sent in mail.outbox} == {"Rejected by ben: Pay 900?"}
    assert "Too <b>dear" in bodies["ana@example.org"]
    assert "Too &lt;b&gt;dear" in bodies["ana@example.org"]
    assert "dear" not in bodies["cleo@example.org"]
    for text in bodies.values():
        assert "risk" not in text.lower()
        assert "2026-01-01" not in text


def test_mails_escape_what_a_workflow_or_a_person_wrote(ask: Ask, ana: Viewer) -> None:
    say("mentioned", ask(card={"subject": "<b>x</b>"}), ana, by="ben", text="<script>alert(1)</script>")
    send_all()
    html = str(mail.outbox[0].alternatives[0][0])
    assert "<script>" not in html
    assert "<b>x" not in html
    assert "<script>alert(1)</script>" in mail.outbox[0].body


def test_what_is_due_together_is_one_mail(ask: Ask, ana: Viewer) -> None:
    for n in range(60):
        say("assigned", ask(f"r{n}", card={"subject": f"claim {n}"}), ana, by="ben")
    assert send_all() == 60
    (sent,) = mail.outbox
    assert sent.subject == "60 notifications from wfdash"
    assert "claim 49" in sent.body
    assert "claim 50" not in sent.body
    assert "and 10 more" in sent.body


def test_a_digest_waits_for_its_hour(ask: Ask, ana: Viewer) -> None:
    Preference.objects.create(user=ana.user, data={"digest": "daily"})
    say("assigned", ask(), ana)
    assert send_all() == 0
    say("escalated", ask("b"), ana)
    assert send_all() == 1
    hurry()
    assert send_all() == 1


def test_what_was_decided_in_the_meantime_is_not_sent(ask: Ask, ana: Viewer) -> None:
    request = ask()
    say("reminder", request, ana)
    answer_request(ana, request.pk, {"action": "approve"})
    assert send_all() == 0
    notice = Notice.objects.get(channel="mail", kind="reminder")
    assert (notice.sent, notice.error) == (None, "Already decided")
    assert notice.given_up is not None


def test_who_lost_the_right_to_see_it_is_not_told(ask: Ask, ana: Viewer) -> None:
    say("decided", ask(), ana, verdict="approve")
    Grant.objects.all().delete()
    assert send_all() == 0
    assert mail.outbox == []


def test_anyone_who_may_see_but_not_answer_gets_no_answer_link(ask: Ask, ana: Viewer) -> None:
    request = ask(by=["ben"])
    say("escalated", request, ana)
    send_all()
    assert "/answer/" not in mail.outbox[0].body
    assert f"https://wf.example/requests/{request.pk}/" in mail.outbox[0].body


@pytest.mark.parametrize("signed_in", [None, NOW])
def test_an_account_that_never_signed_in_gets_no_answer_link_where_admins_may_be_no_one_else(
    ask: Ask, ana: Viewer, settings, signed_in: datetime | None
) -> None:
    """An admin who invited it may have given an address of their own, and so have two accounts."""
    settings.WFDASH_LINKS = False
    ana.user.last_login = signed_in
    ana.user.save()
    say("reminder", ask(), ana)
    assert send_all() == 1
    assert ("/answer/" in mail.outbox[0].body) is (signed_in is not None)


def test_a_failure_is_tried_again_with_growing_patience_and_given_up_after_a_day(ask: Ask, ana: Viewer) -> None:
    say("reminder", ask(), ana)
    spy = Spy(OSError("mail server away"))
    for attempt in range(1, len(RETRY_SECONDS) + 2):
        assert send_all(mail=spy) == 0
        notice = Notice.objects.get(channel="mail")
        assert (notice.attempts, notice.error) == (attempt, "OSError: mail server away")
        if attempt <= len(RETRY_SECONDS):
            wait = (notice.due - timezone.now()).total_seconds()
            assert 0.85 * RETRY_SECONDS[attempt - 1] < wait < 1.15 * RETRY_SECONDS[attempt - 1]
        assert send_all(mail=spy) == 0
        hurry()
    assert notice.given_up is not None
    assert len(spy.letters) == len(RETRY_SECONDS) + 1 == 10
    assert sum(RETRY_SECONDS) < 86_400
    assert len({letters[0].id for letters in spy.letters}) == 1


def test_what_is_undeliverable_is_given_up_at_once(ask: Ask, ana: Viewer) -> None:
    say("reminder", ask(), ana)
    assert send_all(mail=Spy(Undeliverable("no such address"))) == 0
    assert Notice.objects.get(channel="mail").given_up is not None


def test_a_webhook_gets_each_letter_by_itself_and_waits_as_a_whole(ask: Ask, hook: Webhook) -> None:
    requests = [ask(f"r{n}") for n in range(3)]
    for request in requests:
        say("opened", request)
    down = Spy(OSError("down"))
    assert send_all(webhook=down) == 0
    assert len(down.letters) == 1
    assert sorted(Notice.objects.values_list("attempts", flat=True)) == [0, 0, 1]
    assert due_bundles() == []
    hurry()
    up = Spy()
    assert send_all(webhook=up) == 3
    assert [letters[0].payload["request"] for letters in up.letters] == [request.pk for request in requests]
    assert all("/requests/" in letters[0].url for letters in up.letters)


@pytest.mark.parametrize("callback", [False, True])
@pytest.mark.parametrize("kind", sorted(ANSWERABLE))
def test_no_webhook_and_no_callback_gets_an_answer_link(
    ask: Ask, ana: Viewer, hook: Webhook, kind: str, callback: bool
) -> None:
    """Who sets one up reads what it gets: a link in it would answer in the name of its owner."""
    request = ask()
    Webhook.objects.update(owner=ana.user, created_by=ana.user, run=request.run if callback else None)
    notice = notice_to(hook.pk, kind, NOW)
    notice.request, notice.payload = request, facts_of_request(request)
    notice.save()
    spy = Spy()
    assert send_all(webhook=spy) == 1
    ((letter,),) = spy.letters
    assert letter.url == f"https://wf.example/requests/{request.pk}/"
    assert "/answer/" not in str(letter.payload)


def test_what_waits_for_a_webhook_that_is_gone_is_given_up(ask: Ask, hook: Webhook) -> None:
    say("opened", ask())
    Webhook.objects.update(active=False)
    assert send_all(webhook=Spy()) == 0
    assert Notice.objects.get().error == "This webhook was removed or disabled"


def test_a_claim_of_a_worker_that_died_comes_up_again(ask: Ask, hook: Webhook) -> None:
    say("opened", ask())
    with pytest.raises(KeyboardInterrupt):
        send_all(webhook=Spy(KeyboardInterrupt()))  # type: ignore[arg-type]
    assert due_bundles() == []
    assert timezone.now() < Notice.objects.get().due < timezone.now() + timedelta(minutes=6)
    hurry()
    assert send_all(webhook=Spy()) == 1


def test_browser_notices_are_not_delivered_from_the_outbox(ask: Ask, person: Person) -> None:
    say("opened", ask(), person("ben", "reviewer"))
    assert due_bundles() == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Apprise's own imports
def test_apprise_reaches_whom_the_settings_name(ask: Ask, ana: Viewer, settings, monkeypatch) -> None:
    apprise = pytest.importorskip("apprise")
    settings.WFDASH_APPRISE = {"ana": ["json://example.org"]}
    said: list[dict[str, str]] = []
    monkeypatch.setattr(apprise.Apprise, "notify", lambda _, **facts: said.append(facts) or True)
    say("reminder", ask(card={"subject": "Pay?"}), ana)
    assert send_all() == 2
    assert said[0]["title"] == "Due soon: Pay?"
    assert "/answer/" in said[0]["body"]


def test_what_was_told_long_ago_is_forgotten_and_what_still_waits_is_not(ask: Ask, ana: Viewer) -> None:
    for n in range(3):
        say("reminder", ask(f"r{n}"), ana)
    old, recent, _ = Notice.objects.filter(channel="browser").order_by("id")
    Notice.objects.filter(pk=old.pk).update(created=NOW)
    Notice.objects.filter(channel="mail").update(created=NOW)
    assert forget_old() == 1
    assert Notice.objects.filter(channel="mail").count() == 3
    assert Notice.objects.filter(pk=recent.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_two_senders_send_each_notice_once(ask: Ask, hook: Webhook) -> None:
    for n in range(30):
        say("opened", ask(f"r{n}"))
    spy = Spy()
    bundle = Bundle("webhook", None, hook.pk)
    counts = at_once(*[lambda: deliver(bundle, {"webhook": spy})] * 2)
    assert sum(int(count) for count in counts) == 30, counts
    assert len({letters[0].id for letters in spy.letters}) == len(spy.letters) == 30


def test_a_slow_webhook_gets_each_letter_once_from_two_senders(ask: Ask, hook: Webhook, monkeypatch) -> None:
    for n in range(60):
        say("opened", ask(f"r{n}"))
    passed, heard, begun = [0.0], [], timezone.now()
    monkeypatch.setattr(outbox, "boottime", lambda: passed[0])
    monkeypatch.setattr(outbox, "database_now", lambda: begun + timedelta(seconds=passed[0]))

    def quick(receiver: Any, letters: list[Letter]) -> None:
        heard.extend(letter.id for letter in letters)

    def slow(receiver: Any, letters: list[Letter]) -> None:
        passed[0] += 10
        heard.extend(letter.id for letter in letters)
        if len(heard) > 15:
            send_all(webhook=quick)

    while send_all(webhook=slow):
        passed[0] += 300
    assert len(heard) == len(set(heard)) == 60


def test_a_sender_that_slept_begins_nothing_of_what_it_had_claimed(ask: Ask, hook: Webhook, monkeypatch) -> None:
    for n in range(3):
        say("opened", ask(f"r{n}"))
    now = [0.0]
    monkeypatch.setattr(outbox, "boottime", lambda: now[0])

    class Sleeper(Spy):
        def __call__(self, receiver: Any, letters: list[Letter]) -> None:
            super().__call__(receiver, letters)
            now[0] += 3600

    sleeper = Sleeper()
    assert send_all(webhook=sleeper) == 1
    assert len(sleeper.letters) == 1


def test_what_is_due_is_judged_by_the_database_alone(ask: Ask, hook: Webhook, monkeypatch) -> None:
    say("opened", ask())
    monkeypatch.setattr(timezone, "now", lambda: pytest.fail("this machine's clock was asked"))
    monkeypatch.setattr(outbox, "database_now", lambda: NOW - timedelta(days=1))
    assert due_bundles() == []
