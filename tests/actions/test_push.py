"""Push notifications, from what happened to what a browser decrypts: a real endpoint, real keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from django.utils import timezone
from py_vapid.jwt import decode

from checkpoints.database.storage import write
from checkpoints.models import Grant, HumanRequest, Notice, Preference, PushSubscription
from tests.actions.conftest import NOW
from tests.notifications.push_service import Arrived, FakeBrowser, PushService, push_service
from wfdash.access.viewer import Viewer
from wfdash.actions import account
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import Invalid, NotFound
from wfdash.notifications import push as push_keys
from wfdash.notifications.write import notify
from wfdash.worker.outbox import RETRY_SECONDS, deliver, due_bundles

Ask = Callable[..., HumanRequest]
Person = Callable[..., Viewer]


@pytest.fixture
def service(settings, tmp_path: Path) -> Iterator[PushService]:
    settings.WFDASH_HOOKS_LOCAL, settings.WFDASH_DATA_DIR, settings.WFDASH_URL = True, tmp_path, "https://wf.example"
    with push_service() as service:
        yield service


@pytest.fixture
def browser(service: PushService) -> FakeBrowser:
    return FakeBrowser(service)


@pytest.fixture
def ana(person: Person, browser: FakeBrowser) -> Viewer:
    viewer = person("ana", "reviewer")
    account.subscribe(viewer, **browser.subscription, name="Chrome on Android")
    return viewer


def say(kind: str, request: HumanRequest, *viewers: Viewer, **facts: object) -> None:
    with write():
        notify(kind, request, [viewer.user for viewer in viewers], facts=facts)


def send_all() -> int:
    return sum(deliver(bundle) for bundle in due_bundles())


def only(service: PushService) -> Arrived:
    (arrived,) = service.arrived
    return arrived


def test_a_browser_reads_what_happened_and_where_to_look(
    ask: Ask, ana: Viewer, browser: FakeBrowser, service: PushService
) -> None:
    request = ask(card={"subject": "Pay 900?\r\nnow", "risk": "low"}, due=NOW)
    say("reminder", request, ana, text="what a person wrote")
    assert send_all() == 1
    arrived = only(service)
    message = browser.read(arrived.body)
    assert message["title"] == "Due soon: Pay 900? now"
    assert (message["url"], message["waiting"]) == (f"/requests/{request.pk}/", 1)
    assert "wrote" not in str(message)
    assert "/answer/" not in str(message), "a link that answers does not go to a lock screen"
    assert b"Pay" not in arrived.body
    assert (arrived.headers["urgency"], arrived.headers["content-encoding"]) == ("high", "aes128gcm")
    assert PushSubscription.objects.get().sent is not None


def test_a_message_is_signed_for_this_push_service_alone(ask: Ask, ana: Viewer, service: PushService) -> None:
    say("opened", ask(), ana)
    send_all()
    scheme, _, fields = only(service).headers["authorization"].partition(" ")
    facts = dict(part.strip().split("=", 1) for part in fields.split(","))
    assert scheme == "vapid"
    assert facts["k"] == push_keys.public_key()
    claims = decode(facts["t"], facts["k"])
    assert claims["aud"] == service.url
    assert time.time() < claims["exp"] <= time.time() + 86_400
    assert claims["sub"].startswith("mailto:")
    with pytest.raises(InvalidSignature):
        decode(facts["t"][:-8] + "AAAAAAAA", facts["k"])


def test_where_content_is_encrypted_a_lock_screen_does_not_show_it(
    ask: Ask, person: Person, browser: FakeBrowser, service: PushService, settings
) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a-key-of-at-least-sixteen-characters"
    ana = person("ana", "reviewer")
    account.subscribe(ana, **browser.subscription, name="x")
    say("opened", ask(card={"subject": "Pay Daan de Vries?"}), ana)
    send_all()
    message = browser.read(only(service).body)
    assert message["title"] == "Review requested: a request"
    assert "Daan" not in str(message)


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_is_gone_is_removed_with_what_waits_for_it(
    status: int, ask: Ask, ana: Viewer, service: PushService
) -> None:
    say("opened", ask("r1"), ana)
    say("opened", ask("r2"), ana)
    Notice.objects.filter(channel="push", request__id="r2").update(due=timezone.now() + timedelta(hours=1))
    service.status = status
    assert send_all() == 0
    assert not PushSubscription.objects.exists()
    assert not Notice.objects.filter(channel="push", sent=None, given_up=None).exists()
    say("opened", ask("r3"), ana)
    assert due_bundles() == []


@pytest.mark.parametrize("status", [429, 500, 503, 302])
def test_a_service_that_fails_is_asked_again_and_the_browser_stays(
    status: int, ask: Ask, ana: Viewer, service: PushService
) -> None:
    say("opened", ask(), ana)
    service.status = status
    send_all()
    notice = Notice.objects.get(channel="push")
    assert (notice.sent, notice.given_up, notice.attempts) == (None, None, 1)
    assert notice.due > timezone.now() + timedelta(seconds=RETRY_SECONDS[0] * 0.8)
    service.status = 201
    Notice.objects.update(due=timezone.now())
    assert send_all() == 1
    assert service.arrived[0].headers["topic"] == service.arrived[1].headers["topic"], "a second try replaces the first"


@pytest.mark.parametrize("status", [400, 403, 413])
def test_a_message_that_is_refused_is_given_up_and_the_browser_stays(
    status: int, ask: Ask, ana: Viewer, service: PushService
) -> None:
    say("opened", ask(), ana)
    service.status = status
    send_all()
    assert str(status) in Notice.objects.get(channel="push", given_up__isnull=False).error
    assert PushSubscription.objects.exists()


def test_one_that_lost_the_right_since_gets_nothing(ask: Ask, ana: Viewer, service: PushService) -> None:
    say("opened", ask(), ana)
    Grant.objects.filter(user=ana.user).delete()
    assert send_all() == 0
    assert service.arrived == []


def test_what_is_decided_by_then_is_not_sent(ask: Ask, ana: Viewer, service: PushService) -> None:
    request = ask()
    say("opened", request, ana)
    answer_request(ana, request.pk, {"action": "approve"})
    Notice.objects.filter(kind="decided").delete()
    send_all()
    assert service.arrived == []


def test_each_browser_gets_its_own_and_one_that_fails_holds_up_none(
    ask: Ask, ana: Viewer, service: PushService, browser: FakeBrowser
) -> None:
    second = FakeBrowser(service, "two")
    account.subscribe(ana, **second.subscription, name="Firefox")
    PushSubscription.objects.filter(name="Chrome on Android").update(digest="x")
    damaged = PushSubscription.objects.get(digest="x")
    damaged.data = damaged.data | {"endpoint": "https://10.0.0.1/push"}
    damaged.save()
    say("opened", ask(), ana)
    assert send_all() == 1
    assert second.read(only(service).body)["title"].startswith("Review requested")


def test_several_that_are_due_together_are_one_message(
    ask: Ask, ana: Viewer, service: PushService, browser: FakeBrowser
) -> None:
    say("opened", ask("r1"), ana)
    say("opened", ask("r2"), ana)
    assert send_all() == 2
    message = browser.read(only(service).body)
    assert (message["title"], message["url"]) == ("2 notifications from wfdash", "/notifications/")


def test_quiet_hours_and_choices_hold_for_push(ask: Ask, ana: Viewer, service: PushService) -> None:
    channels = {"opened": ["browser"], "reminder": ["push"]}
    offered = ["browser", "mail", "push", "apprise"]
    Preference.objects.create(
        user=ana.user, data={"channels": channels, "offered": offered, "quiet": ["00:00", "23:59"], "zone": "UTC"}
    )
    say("opened", ask("r1"), ana)
    say("reminder", ask("r2"), ana)
    assert [(row.kind, row.due > timezone.now()) for row in Notice.objects.filter(channel="push")] == [
        ("reminder", True)
    ]


def test_choices_made_before_there_was_push_do_not_silence_it(ask: Ask, ana: Viewer) -> None:
    Preference.objects.create(user=ana.user, data={"channels": {"opened": ["mail"]}})
    say("opened", ask(), ana)
    assert Notice.objects.filter(channel="push").count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "http://push.example/1"),
        ("endpoint", "https://user:secret@push.example/1"),
        ("endpoint", "https://push.example/" + "x" * 1_000),
        ("endpoint", "ftp://push.example"),
        ("endpoint", ""),
        ("p256dh", "AAAA"),
        ("p256dh", "BB" * 60),
        ("auth", "AAAA"),
        ("auth", "é" * 22),
    ],
)
def test_what_is_no_subscription_is_refused(
    field: str, value: str, person: Person, browser: FakeBrowser, settings
) -> None:
    settings.WFDASH_HOOKS_LOCAL = False
    given = {**browser.subscription, "endpoint": "https://push.example/1", field: value}
    with pytest.raises(Invalid):
        account.subscribe(person("ana", "reviewer"), **given, name="x")
    assert not PushSubscription.objects.exists()


def test_an_address_inside_is_never_posted_to(ask: Ask, ana: Viewer, service: PushService, settings) -> None:
    say("opened", ask(), ana)
    settings.WFDASH_HOOKS_LOCAL = False
    send_all()
    assert service.arrived == []
    assert Notice.objects.get(channel="push").given_up is not None


def test_a_person_has_ten_browsers_at_most_and_one_that_is_known_is_not_counted(
    ana: Viewer, service: PushService, browser: FakeBrowser
) -> None:
    for n in range(9):
        account.subscribe(ana, **FakeBrowser(service, f"n{n}").subscription, name="x")
    with pytest.raises(Invalid):
        account.subscribe(ana, **FakeBrowser(service, "more").subscription, name="x")
    account.subscribe(ana, **browser.subscription, name="again")
    assert PushSubscription.objects.filter(user=ana.user).count() == 10


def test_a_browser_belongs_to_whom_subscribed_it_last(ana: Viewer, person: Person, browser: FakeBrowser) -> None:
    ben = person("ben", "reviewer")
    account.subscribe(ben, **browser.subscription, name="shared")
    assert PushSubscription.objects.get().user == ben.user


def test_no_one_removes_or_tries_the_browser_of_another_person(ana: Viewer, person: Person) -> None:
    theirs, ben = PushSubscription.objects.get(), person("ben", "operator")
    for act in (account.unsubscribe, account.try_push):
        with pytest.raises(NotFound):
            act(ben, theirs.pk)
    assert PushSubscription.objects.exists()


def test_a_test_reaches_the_browser_it_is_for(ana: Viewer, service: PushService, browser: FakeBrowser) -> None:
    account.try_push(ana, PushSubscription.objects.get().pk)
    assert send_all() == 1
    assert browser.read(only(service).body)["title"] == "Test notification"


def test_who_may_no_longer_sign_in_gets_nothing(ask: Ask, ana: Viewer, service: PushService) -> None:
    say("opened", ask(), ana)
    ana.user.is_active = False
    ana.user.save()
    assert send_all() == 0
    assert service.arrived == []


def test_address_and_keys_are_stored_encrypted_where_content_is(person: Person, browser: FakeBrowser, settings) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a-key-of-at-least-sixteen-characters"
    account.subscribe(person("ana", "reviewer"), **browser.subscription, name="x")
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM checkpoints_pushsubscription")
        (stored,) = cursor.fetchone()
    assert browser.subscription["endpoint"] not in str(stored)
    assert PushSubscription.objects.get().data["endpoint"] == browser.subscription["endpoint"]
