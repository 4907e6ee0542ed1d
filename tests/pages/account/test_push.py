"""Push notifications on the settings page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from checkpoints.models import Notice, PushSubscription
from tests.notifications.push_service import FakeBrowser, PushService
from wfdash.notifications import push
from wfdash.web.pages.account.settings import browser_name

PHONE = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/131.0.0.0 Mobile Safari/537.36"
SignIn = Callable[[str], Client]


@pytest.fixture(autouse=True)
def data(settings, tmp_path: Path) -> Iterator[None]:
    settings.WFDASH_DATA_DIR = tmp_path
    return


@pytest.fixture
def sign_in(people) -> SignIn:
    def sign_in(name: str) -> Client:
        client = Client()
        client.force_login(people[name])
        return client

    return sign_in


@pytest.fixture
def subscription() -> dict[str, str]:
    return FakeBrowser(PushService(url="https://push.example")).subscription


def test_a_browser_is_subscribed_shown_tried_and_removed(sign_in: SignIn, subscription: dict[str, str]) -> None:
    ana = sign_in("ana")
    page = ana.get("/settings/").content.decode()
    assert push.public_key() in page
    assert ".push" not in page, "without a browser there is nothing to choose"
    assert ana.post("/settings/push/", subscription, headers={"user-agent": PHONE}).status_code == 201
    found = PushSubscription.objects.get()
    page = ana.get("/settings/").content.decode()
    assert "Chrome on Android" in page
    assert 'name="opened.push"' in page
    assert found.digest in page
    assert subscription["endpoint"] not in page
    assert ana.post(f"/settings/push/{found.pk}/", {"act": "test"}).status_code == 302
    assert Notice.objects.get(channel="push").target == found.pk
    assert ana.post(f"/settings/push/{found.pk}/", {"act": "remove"}).status_code == 302
    assert not PushSubscription.objects.exists()
    assert not Notice.objects.filter(channel="push").exists()


def test_a_refusal_says_why(sign_in: SignIn, subscription: dict[str, str]) -> None:
    answer = sign_in("ana").post("/settings/push/", subscription | {"endpoint": "http://10.0.0.1/"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("The address must begin with https://")


def test_no_one_sees_or_removes_the_browsers_of_another_person(sign_in: SignIn, subscription: dict[str, str]) -> None:
    sign_in("ana").post("/settings/push/", subscription, headers={"user-agent": PHONE})
    found, ben = PushSubscription.objects.get(), sign_in("ben")
    assert "Chrome on Android" not in ben.get("/settings/").content.decode()
    assert ben.post(f"/settings/push/{found.pk}/", {"act": "remove"}).status_code == 404
    assert PushSubscription.objects.exists()


def test_where_it_is_not_installed_the_page_says_what_to_do(sign_in: SignIn, monkeypatch) -> None:
    for module in ("wfdash.web.pages.account.settings", "wfdash.notifications.write"):
        monkeypatch.setattr(f"{module}.is_installed", lambda: False)
    page = sign_in("ana").get("/settings/").content.decode()
    assert "pip install wfdash[push]" in page
    assert "Turn on in this browser" not in page


def test_a_key_that_is_none_hides_the_button_and_nothing_else(sign_in: SignIn, settings) -> None:
    settings.WFDASH_PUSH_KEY = "not a key"
    answer = sign_in("ana").get("/settings/")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "Not set up correctly" in page
    assert "Turn on in this browser" not in page
    assert "not a key" not in page


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (PHONE, "Chrome on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/131.0 Safari/537.36 Edg/131.0", "Edge on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", "Firefox on Linux"),
        ("<script>", "Browser"),
        ("", "Browser"),
    ],
)
def test_a_browser_is_called_as_people_call_it(agent: str, name: str) -> None:
    assert browser_name(agent) == name
