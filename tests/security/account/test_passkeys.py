"""Getting in by a passkey that is not one's own, or past everything else by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from checkpoints.models import RecoveryCode, SecondFactor, ServiceAccount
from tests.pages.account.test_second_factor import app_of, signed_in, turn_on
from tests.signin.authenticator import PASSKEY, SETTINGS, Authenticator, add_passkey, making, to_sign
from wfdash.access.signin import attempt_limits, passkeys, second_factor
from wfdash.access.signin.attempt_limits import CODE
from wfdash.access.signin.sessions import MARK

PASSWORD = {"username": "ana", "password": "ana-password"}
OWN = {"current": "ana-password"}


@pytest.fixture
def ana(everybody: dict[str, User]) -> User:
    return everybody["ana"]


@pytest.fixture
def home(as_: Callable[[str], Client]) -> Client:
    """The browser in which Ana is signed in; a thief with its session can use it, too."""
    return as_("ana")


@pytest.fixture
def phone(home: Client) -> Authenticator:
    """Ana's passkey."""
    return add_passkey(home, **OWN)


def waiting() -> Client:
    """Return a browser in which Ana's password was entered."""
    client = Client()
    client.post("/sign-in/", PASSWORD)
    return client


def count(user: User) -> int:
    return int(second_factor.passkeys(user=user).count())


def test_a_stolen_session_adds_no_passkey(ana: User, home: Client) -> None:
    codes = turn_on(ana)
    for proof in ({}, {"current": "wrong"}, {"code": codes[0]}, OWN, {**OWN, "code": "1"}, {**OWN, "passkey": "{}"}):
        assert making(home, **proof) is None
    assert making(home, **OWN, code=codes[0]) is not None


def test_who_has_neither_password_nor_code_signed_in_a_moment_ago(ana: User, home: Client) -> None:
    ana.set_unusable_password()
    ana.save()
    home.force_login(ana)
    assert making(home) is None
    session = home.session
    for minutes, added in ((11, False), (24 * 60, False), (9, True)):
        session[MARK] = {"since": (timezone.now() - timedelta(minutes=minutes)).isoformat()}
        session.save()
        assert (making(home) is not None) == added


def test_what_was_asked_for_in_one_session_counts_in_no_other(ana: User, home: Client) -> None:
    thief = Client()
    thief.force_login(ana)
    device = Authenticator()
    answer = device.make(making(home, **OWN))
    thief.post(SETTINGS, {"act": "add-passkey", "passkey": answer})
    assert count(ana) == 0
    home.post(SETTINGS, {"act": "add-passkey", "passkey": answer})
    assert count(ana) == 1


def test_a_passkey_is_not_added_twice_nor_after_a_second_factor_was_turned_on_since(ana: User, home: Client) -> None:
    answer = Authenticator().make(making(home, **OWN))
    turn_on(ana)
    home.post(SETTINGS, {"act": "add-passkey", "passkey": answer})
    assert count(ana) == 0
    second_factor.reset(ana)
    answer = Authenticator().make(making(home, **OWN))
    for _ in range(2):
        home.post(SETTINGS, {"act": "add-passkey", "passkey": answer})
    assert count(ana) == 1


def test_a_set_up_that_someone_began_before_the_first_passkey_is_worth_nothing_after_it(
    ana: User, home: Client
) -> None:
    thief = Client()
    thief.force_login(ana)
    thief.post(SETTINGS, {"act": "begin"})
    code = app_of(ana).now()
    add_passkey(home, **OWN)
    assert thief.post(SETTINGS, {"act": "confirm", "code": code}).status_code == 422
    assert not SecondFactor.objects.filter(user=ana).exists()


def test_a_signature_signs_in_once(ana: User, phone: Authenticator) -> None:
    client = Client()
    answer = phone.sign(to_sign(client))
    assert client.post(PASSKEY, {"passkey": answer}).status_code == 302
    client.post("/sign-out/")
    for again in (client, Client(), waiting()):
        to_sign(again)
        again.post("/sign-in/code/", {"passkey": answer})
        assert again.post(PASSKEY, {"passkey": answer}).status_code == 422
        assert not signed_in(again)


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_with_the_same_signature_one_gets_in(
    phone: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, together = Client(), Barrier(2)
    answer, cookies = phone.sign(to_sign(client)), client.cookies
    monkeypatch.setattr(passkeys, "_is_here", lambda given: together.wait(20) >= 0)

    def try_it(_: int) -> bool:
        mine = Client()
        mine.cookies = cookies.copy()
        try:
            return mine.post(PASSKEY, {"passkey": answer}).status_code == 302
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(try_it, range(2))) == [False, True]


def test_one_key_is_no_passkey_of_two_people(home: Client, phone: Authenticator, as_: Callable[[str], Client]) -> None:
    ben = as_("ben")
    copied = Authenticator().named_as(phone).make(making(ben, current="ben-password"))
    assert ben.post(SETTINGS, {"act": "add-passkey", "passkey": copied}).status_code == 422


def test_the_administration_s_page_for_passwords_is_no_way_to_guess_one(as_: Callable[[str], Client]) -> None:
    for answer in (as_("adam").post("/admin/password_change/", OWN), Client().get("/admin/password_change/")):
        assert answer.url == "/settings/account/"


def test_a_challenge_is_used_up_by_a_wrong_answer(ana: User, phone: Authenticator) -> None:
    client = waiting()
    options = to_sign(client)
    assert client.post("/sign-in/code/", {"passkey": Authenticator().named_as(phone).sign(options)}).status_code == 422
    assert client.post("/sign-in/code/", {"passkey": phone.sign(options)}).status_code == 422
    assert client.post("/sign-in/code/", {"passkey": phone.sign(to_sign(client))}).status_code == 302


def test_no_one_s_passkey_is_another_s_second_factor(
    phone: Authenticator, as_: Callable[[str], Client], everybody: dict[str, User]
) -> None:
    bens = add_passkey(as_("ben"), current="ben-password")
    client = waiting()
    for device in (bens, Authenticator().named_as(phone)):
        assert client.post("/sign-in/code/", {"passkey": device.sign(to_sign(client))}).status_code == 422
    assert not signed_in(client)
    bens.user = phone.user
    stranger = Client()
    assert stranger.post(PASSKEY, {"passkey": bens.sign(to_sign(stranger))}).status_code == 422


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://testserver", "https://testserver.evil.example", "https://sub.testserver"]
)
def test_what_was_signed_on_another_site_proves_nothing(origin: str, phone: Authenticator) -> None:
    phone.origin = origin
    for client in (waiting(), Client()):
        client.post("/sign-in/code/", {"passkey": phone.sign(to_sign(client))})
        client.post(PASSKEY, {"passkey": phone.sign(to_sign(client))})
        assert not signed_in(client)


def test_alone_a_passkey_counts_only_after_pin_or_biometrics(phone: Authenticator) -> None:
    phone.verifies = False
    client, other = waiting(), Client()
    assert other.post(PASSKEY, {"passkey": phone.sign(to_sign(other))}).status_code == 422
    # A challenge of the code's page is no way around it.
    assert client.post(PASSKEY, {"passkey": phone.sign(to_sign(client))}).status_code == 422
    assert client.post("/sign-in/code/", {"passkey": phone.sign(to_sign(client))}).status_code == 302


def test_one_that_was_made_without_pin_or_biometrics_is_not_kept(ana: User, home: Client) -> None:
    answer = Authenticator(verifies=False).make(making(home, **OWN))
    assert home.post(SETTINGS, {"act": "add-passkey", "passkey": answer}).status_code == 422
    assert count(ana) == 0


@pytest.mark.parametrize("why", ["deactivated", "a program", "removed"])
def test_who_may_not_sign_in_does_not_by_a_passkey(why: str, ana: User, phone: Authenticator) -> None:
    client = Client()
    options = to_sign(client)
    if why == "deactivated":
        User.objects.filter(pk=ana.pk).update(is_active=False)
    elif why == "removed":
        second_factor.passkeys(user=ana).delete()
    else:
        ServiceAccount.objects.create(user=ana, created=timezone.now())
    assert client.post(PASSKEY, {"passkey": phone.sign(options)}).status_code == 422


def test_where_no_one_signs_in_by_password_a_passkey_is_a_second_factor_and_no_door(
    ana: User, phone: Authenticator, settings: Any
) -> None:
    client = Client()
    answer = phone.sign(to_sign(client))
    settings.WFDASH_PASSWORDS = False
    assert client.post(PASSKEY, {"passkey": answer}).status_code == 404
    assert client.post(PASSKEY).status_code == 404
    assert "Use a passkey" not in Client().get("/sign-in/").content.decode()


def test_a_session_gets_another_key_when_a_passkey_signs_in(phone: Authenticator) -> None:
    client = Client()
    answer = phone.sign(to_sign(client))
    before = client.cookies["sessionid"].value
    client.post(PASSKEY, {"passkey": answer})
    assert signed_in(client)
    assert client.cookies["sessionid"].value != before
    planted = Client()
    planted.cookies["sessionid"] = before
    assert not signed_in(planted)


def test_wrong_passkeys_and_wrong_codes_are_counted_together(ana: User, phone: Authenticator) -> None:
    client = waiting()
    statuses = [client.post("/sign-in/code/", {"passkey": "{}"}).status_code for _ in range(CODE)]
    assert statuses == [422] * CODE
    assert client.post("/sign-in/code/", {"passkey": phone.sign(to_sign(client))}).status_code == 429


def test_passkeys_that_come_to_nothing_are_counted_by_address(
    phone: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_limits, "ADDRESS", 3)
    for _ in range(4):
        client = Client()
        client.post(PASSKEY, {"passkey": phone.sign(to_sign(client))})
        assert signed_in(client), "who gets in is not counted"
    answers = [Client().post(PASSKEY) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429]
    assert "Too many attempts" in answers[-1].json()["error"]
    assert Client().post(PASSKEY, REMOTE_ADDR="203.0.113.9").status_code == 200


def test_the_last_second_factor_stays_where_everyone_needs_one(
    ana: User, home: Client, phone: Authenticator, settings: Any
) -> None:
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    (key,) = second_factor.passkeys(user=ana).values_list("pk", flat=True)
    given = {"act": "remove-passkey", "key": key}
    refused = home.post(SETTINGS, {**given, "passkey": phone.sign(to_sign(home))}, follow=True)
    assert "this is your only one" in refused.content.decode()
    home.post(SETTINGS, {"act": "off", "passkey": phone.sign(to_sign(home))})
    assert count(ana) == 1
    assert RecoveryCode.objects.filter(user=ana).count() == 10
    add_passkey(home, "Key", **OWN, passkey=phone.sign(to_sign(home)))
    assert home.post(SETTINGS, {**given, "code": "1"}).status_code == 422
    assert home.post(SETTINGS, {**given, "passkey": phone.sign(to_sign(home))}).status_code == 302
    assert count(ana) == 1


def test_no_one_removes_or_renames_another_s(ana: User, phone: Authenticator, as_: Callable[[str], Client]) -> None:
    ben = as_("ben")
    bens = add_passkey(ben, current="ben-password")
    (key,) = second_factor.passkeys(user=ana).values_list("pk", flat=True)
    for act in ("remove-passkey", "rename-passkey"):
        ben.post(SETTINGS, {"act": act, "key": key, "name": "mine", "passkey": bens.sign(to_sign(ben))})
    assert second_factor.passkeys(user=ana).get().data["name"] == "Phone"


def hostile() -> Iterator[str]:
    yield from ("", "{", "null", "[]", '"x"', "1e999", "[" * 20_000, "x" * 30_000, '{"response": "x"}', "\0")
    given = [(data, "MQ") for data in ("", "A" * 50, "_" * 200, "gYGBgYGB" * 1_000, 5, None, {"a": 1}, ["AAAA"])]
    given += [("A" * 50, user) for user in ("OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", "_w", None, 7)]
    for data, user in given:
        parts = dict.fromkeys(("clientDataJSON", "authenticatorData", "signature", "attestationObject"), data)
        yield json.dumps(
            {"id": "AAAA", "rawId": "AAAA", "type": "public-key", "response": {**parts, "userHandle": user}}
        )


def test_an_answer_that_no_browser_gives_is_refused_and_never_fails(
    ana: User, home: Client, phone: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_limits, "CODE", 10_000)
    pending, stranger = waiting(), Client()
    genuine = json.loads(Authenticator().make(making(home, **OWN, passkey=phone.sign(to_sign(home)))))
    kept = dict(home.session.items())
    altered = [json.dumps({**genuine, name: value}) for name in genuine for value in (None, 1, "", "AAAA", {}, "\0")]
    for text in (*hostile(), *altered):
        assert stranger.post(PASSKEY, {"passkey": text or "x"}).status_code == 422
        assert pending.post("/sign-in/code/", {"passkey": text, "code": "1"}).status_code == 422
        session = home.session
        session.update(kept)
        session.save()
        added = home.post(SETTINGS, {"act": "add-passkey", "passkey": text}).status_code
        # What a browser may leave out changes nothing.
        assert added == 422 or (added == 302 and text in altered)
    stored = str([row.data for row in second_factor.passkeys(user=ana)])
    assert not {"\0", "AAAA"} & {*stored.replace("'", " ").split()}


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for found in resolver.url_patterns:
        if isinstance(found, URLResolver):
            yield from patterns(found)
        else:
            yield found


def test_no_address_leads_to_a_page_of_allauth() -> None:
    modules = {pattern.callback.__module__ for pattern in patterns(get_resolver())}
    assert "wfdash.web.pages.account.signin" in modules
    assert not {module for module in modules if module.startswith("allauth")}


@pytest.mark.parametrize(
    "path", ["login/", "signup/", "email/", "password/reset/", "2fa/", "2fa/webauthn/add/", "sessions/", "social/"]
)
def test_the_usual_addresses_of_allauth_are_not_there(path: str, home: Client) -> None:
    for client in (home, Client()):
        assert client.get(f"/accounts/{path}").status_code == 404
        assert client.post(f"/accounts/{path}").status_code == 404
