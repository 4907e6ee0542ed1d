"""Passkeys: added, renamed and removed in the settings; the second factor at sign-in, or all of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import AuditEntry, RecoveryCode
from tests.pages.account.test_second_factor import app_of, signed_in, turn_on
from tests.signin.authenticator import PASSKEY, SETTINGS, Authenticator, add_passkey, to_sign
from wfdash.access.signin import second_factor
from wfdash.access.signin.links import create_link

OWN = {"current": "ana-password"}


def names(user: User) -> list[str]:
    return [row.data["name"] for row in second_factor.passkeys(user=user)]


@pytest.fixture
def ana(everybody: dict[str, User]) -> User:
    return everybody["ana"]


@pytest.fixture
def home(as_: Any) -> Client:
    """The browser in which Ana is signed in."""
    client: Client = as_("ana")
    return client


@pytest.fixture
def phone(home: Client) -> Authenticator:
    """Ana's passkey."""
    return add_passkey(home, " My   phone ", **OWN)


def test_the_first_one_comes_with_recovery_codes_and_another_one_with_none(
    ana: User, home: Client, phone: Authenticator
) -> None:
    assert second_factor.is_on(ana)
    codes = set(RecoveryCode.objects.filter(user=ana).values_list("code_hash", flat=True))
    assert len(codes) == 10
    add_passkey(home, "Key", **OWN, passkey=phone.sign(to_sign(home)))
    assert names(ana) == ["My phone", "Key"]
    assert set(RecoveryCode.objects.filter(user=ana).values_list("code_hash", flat=True)) == codes
    entries = AuditEntry.objects.filter(verb="second factor: add passkey").order_by("n")
    kept = [row.data for row in second_factor.passkeys(user=ana)]
    assert [entry.facts for entry in entries] == [
        {"user": "ana", "passkey": one["name"], "key": one["key"]} for one in kept
    ]
    shown = home.get(SETTINGS).content.decode()
    assert "My phone" in shown
    assert "last used" in shown


@pytest.mark.parametrize("door", ["password", "link"])
def test_a_passkey_is_the_second_factor_after_a_password_and_after_a_link(
    door: str, ana: User, phone: Authenticator
) -> None:
    client = Client()
    if door == "password":
        client.post("/sign-in/", {"username": "ana", "password": "ana-password", "next": "/runs/"})
    else:
        client.post(create_link(ana))
    assert not signed_in(client)
    assert "Use a passkey" in client.get("/sign-in/code/").content.decode()
    done = client.post("/sign-in/code/", {"code": "", "passkey": phone.sign(to_sign(client))})
    assert done.url == ("/runs/" if door == "password" else "/")
    assert signed_in(client)
    assert AuditEntry.objects.filter(verb="sign in").latest("n").facts["how"] == f"{door} and passkey"


def test_a_passkey_alone_signs_in_to_the_page_that_was_wanted(phone: Authenticator, settings: Any) -> None:
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    client = Client()
    assert client.post(PASSKEY, {"passkey": phone.sign(to_sign(client)), "next": "/runs/"}).url == "/runs/"
    assert signed_in(client)
    assert AuditEntry.objects.filter(verb="sign in").latest("n").facts["how"] == "passkey"


def test_an_authenticator_app_beside_a_passkey_needs_the_passkey_to_be_set_up(
    ana: User, home: Client, phone: Authenticator
) -> None:
    assert home.post(SETTINGS, {"act": "begin", "code": "1"}).status_code == 422
    assert home.post(SETTINGS, {"act": "begin", "passkey": phone.sign(to_sign(home))}).status_code == 302
    home.post(SETTINGS, {"act": "confirm", "code": app_of(ana).now()})
    assert second_factor.has_app(ana)
    assert names(ana) == ["My phone"]


def test_a_passkey_gets_another_name(ana: User, home: Client, phone: Authenticator) -> None:
    key = second_factor.passkeys(user=ana).get().pk
    assert home.post(SETTINGS, {"act": "rename-passkey", "key": key, "name": "Blue\0 \u202ephone"}).status_code == 302
    assert names(ana) == ["Blue phone"]
    for name in ("", "x" * 81):
        assert home.post(SETTINGS, {"act": "rename-passkey", "key": key, "name": name}).status_code == 422
    for other in ("", "x", "9" * 30, str(key + 1)):
        answer = home.post(SETTINGS, {"act": "rename-passkey", "key": other, "name": "New"}, follow=True)
        assert "Passkey not found" in answer.content.decode()
    assert names(ana) == ["Blue phone"]


def test_recovery_codes_end_with_the_last_passkey_where_there_is_no_app(
    ana: User, home: Client, phone: Authenticator
) -> None:
    key = second_factor.passkeys(user=ana).get().pk
    given = {"act": "remove-passkey", "key": key, "passkey": phone.sign(to_sign(home))}
    assert home.post(SETTINGS, given).status_code == 302
    assert not second_factor.is_on(ana)
    assert not RecoveryCode.objects.filter(user=ana).exists()
    assert AuditEntry.objects.filter(verb="second factor: remove passkey", actor="ana").exists()


def test_recovery_codes_stay_where_there_is_an_app(ana: User, home: Client) -> None:
    codes = turn_on(ana)
    add_passkey(home, **OWN, code=codes[0])
    key = second_factor.passkeys(user=ana).get().pk
    home.post(SETTINGS, {"act": "remove-passkey", "key": key, "code": codes[1]})
    assert names(ana) == []
    assert second_factor.codes_left(ana) == 8


def test_turning_it_off_and_a_reset_take_passkeys_away(ana: User, home: Client, phone: Authenticator, as_: Any) -> None:
    assert home.post(SETTINGS, {"act": "off", "passkey": phone.sign(to_sign(home))}).status_code == 302
    assert (names(ana), second_factor.is_on(ana)) == ([], False)
    add_passkey(home, **OWN)
    adam = as_("adam")
    assert "Reset second factor" in adam.get("/people/ana/").content.decode()
    adam.post("/people/ana/", {"act": "factor"})
    assert (names(ana), second_factor.is_on(ana)) == ([], False)
    assert AuditEntry.objects.filter(verb="second factor: remove lost passkey", actor="adam").exists()


def test_a_first_password_takes_a_passkey_for_a_code(ana: User, home: Client, phone: Authenticator) -> None:
    ana.set_unusable_password()
    ana.save()
    home.force_login(ana)
    assert "Use a passkey" in home.get("/settings/account/").content.decode()
    new = {"act": "password", "new": "correct horse battery", "repeated": "correct horse battery"}
    assert home.post("/settings/account/", {**new, "code": "1"}).status_code == 422
    assert home.post("/settings/account/", {**new, "passkey": phone.sign(to_sign(home))}).status_code == 302


def test_who_has_a_passkey_is_listed_with_a_second_factor(ana: User, phone: Authenticator, as_: Any) -> None:
    shown = as_("adam").get("/people/?show=open").content.decode()
    assert 'href="/people/ben/"' in shown
    assert 'href="/people/ana/"' not in shown


def test_a_project_without_the_app_of_allauth_has_authenticator_apps_alone(
    ana: User, home: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_factor, "takes_passkeys", lambda: False)
    turn_on(ana)
    for client, address in ((home, SETTINGS), (home, "/settings/account/"), (Client(), "/sign-in/")):
        shown = client.get(address).content.decode()
        assert not {"Use a passkey", "Add a passkey", "Passkeys</h2>"} & set(
            re.findall(r"\w+ a passkey|Passkeys</h2>", shown)
        )
    assert Client().post(PASSKEY).status_code == 404
    client = Client()
    client.post("/sign-in/", {"username": "ana", "password": "ana-password"})
    assert client.post("/sign-in/code/", {"code": app_of(ana).now()}).status_code == 302
