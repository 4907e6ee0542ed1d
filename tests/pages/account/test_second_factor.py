from __future__ import annotations

import json
import re
import time
from typing import Any

import pyotp
import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import AuditEntry, SecondFactor
from tests.signin.authenticator import Authenticator
from wfdash.access.signin import second_factor as signin_second_factor
from wfdash.access.signin.links import create_link
from wfdash.web.pages.account import second_factor

PASSWORD = {"username": "ana", "password": "ana-password", "next": "/runs/"}


def app_of(user: User) -> pyotp.TOTP:
    return pyotp.TOTP(SecondFactor.objects.get(user=user).secret)


def turn_on(user: User) -> list[str]:
    """Turn it on as if an hour ago: the code of this moment is then not used yet."""
    setup = signin_second_factor.begin(user)
    codes = signin_second_factor.confirm(user, app_of(user).now(), setup)
    SecondFactor.objects.filter(user=user).update(last_step=0)
    return codes


def codes_in(answer: Any) -> list[str]:
    return re.findall(r"<code>([a-z2-7-]{19})</code>", answer.content.decode())


def signed_in(client: Client) -> bool:
    return client.get("/").status_code == 200


def test_it_is_set_up_on_a_page_of_the_settings(as_: Any, everybody: dict[str, User]) -> None:
    client, address = as_("ana"), "/settings/second-factor/"
    assert "The second factor is off" in client.get(address).content.decode()
    assert client.post(address, {"act": "begin"}).status_code == 302
    assert 'src="data:image/svg+xml' in client.get(address).content.decode()
    wrong = client.post(address, {"act": "confirm", "code": "12"})
    assert wrong.status_code == 422
    assert "Wrong code" in wrong.content.decode()
    assert len(codes_in(client.post(address, {"act": "confirm", "code": app_of(everybody["ana"]).now()}))) == 10
    assert "You have 10 unused recovery codes" in client.get(address).content.decode()
    assert not codes_in(client.get(address))


@pytest.mark.parametrize("act", ["confirm", "renew", "add-passkey"])
def test_a_form_sent_twice_shows_the_recovery_codes_that_work(act: str, as_: Any, everybody: dict[str, User]) -> None:
    """A browser drops the answer to the first click."""
    client, ana, address = as_("ana"), everybody["ana"], "/settings/second-factor/"
    if act == "add-passkey":
        shown = client.post(
            address, {"act": "name-passkey", "name": "Phone", "current": "ana-password"}
        ).content.decode()
        making = json.loads(shown.split('type="application/json">')[1].split("</script>")[0])
        proof = {"passkey": Authenticator().make(making)}
    else:
        turn_on(ana) if act == "renew" else client.post(address, {"act": "begin"})
        shown, proof = client.get(address).content.decode(), {"code": app_of(ana).now()}
    key = re.findall(r'name="_key" value="([^"]+)"', shown)[0]
    first, again = (codes_in(client.post(address, {"act": act, "_key": key, **proof})) for _ in range(2))
    assert len(first) == 10
    assert first == again
    assert not codes_in(client.post(address, {"act": act, "_key": key, "code": "1"}, follow=True))
    signin_second_factor.check(ana, again[9])
    assert not codes_in(client.post(address, {"act": act, "_key": key, **proof}, follow=True))


@pytest.mark.parametrize("door", ["password", "link"])
def test_a_code_is_asked_for_after_the_password_and_after_a_link(door: str, everybody: dict[str, User]) -> None:
    turn_on(everybody["ana"])
    client = Client()
    answer = client.post("/sign-in/", PASSWORD) if door == "password" else client.post(create_link(everybody["ana"]))
    assert answer.url == "/sign-in/code/"
    assert not signed_in(client)
    assert "as ana" in client.get("/sign-in/code/").content.decode()
    assert client.post("/sign-in/code/", {"code": "1"}).status_code == 422
    assert not signed_in(client)
    done = client.post("/sign-in/code/", {"code": app_of(everybody["ana"]).now()})
    assert done.url == ("/runs/" if door == "password" else "/")
    assert signed_in(client)
    assert AuditEntry.objects.filter(verb="sign in").latest("n").facts["how"] == f"{door} and code"


def test_a_recovery_code_signs_in(everybody: dict[str, User]) -> None:
    codes = turn_on(everybody["ana"])
    client = Client()
    client.post("/sign-in/", PASSWORD)
    assert client.post("/sign-in/code/", {"code": codes[0]}).status_code == 302
    assert signed_in(client)


def test_the_code_page_is_nothing_without_a_password_given_before(everybody: dict[str, User]) -> None:
    codes = turn_on(everybody["ana"])
    assert Client().get("/sign-in/code/").url == "/sign-in/"
    assert Client().post("/sign-in/code/", {"code": codes[0]}).url == "/sign-in/"


@pytest.mark.parametrize("what", ["late", "password", "left"])
def test_a_password_given_before_does_not_count_forever(
    what: str, everybody: dict[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = turn_on(everybody["ana"])
    client = Client()
    client.post("/sign-in/", PASSWORD)
    if what == "late":
        later = time.time() + second_factor.CODE_SECONDS + 1
        monkeypatch.setattr(second_factor.time, "time", lambda: later)
    elif what == "password":
        everybody["ana"].set_password("another-password")
        everybody["ana"].save()
    else:
        User.objects.filter(username="ana").update(is_active=False)
    assert client.post("/sign-in/code/", {"code": codes[0]}).url == "/sign-in/"
    assert not signed_in(client)


def test_too_many_codes_are_refused_with_the_time_to_wait(everybody: dict[str, User]) -> None:
    turn_on(everybody["ana"])
    client = Client()
    client.post("/sign-in/", PASSWORD)
    answers = [client.post("/sign-in/code/", {"code": "1"}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [422] * 5 + [429]
    assert int(answers[-1].headers["Retry-After"]) > 0
    assert "<div>Too many wrong codes. Wait 5 minutes.</div>" in answers[-1].content.decode()


def test_turning_it_off_and_new_recovery_codes_need_a_code(as_: Any, everybody: dict[str, User]) -> None:
    codes = turn_on(everybody["ana"])
    client, address = as_("ana"), "/settings/second-factor/"
    for act in ("off", "renew"):
        assert client.post(address, {"act": act, "code": "1"}).status_code == 422
    assert client.post(address, {"act": "renew", "code": codes[0]}).status_code == 200
    assert client.post(address, {"act": "off", "code": app_of(everybody["ana"]).now()}).status_code == 302
    assert not signin_second_factor.is_on(everybody["ana"])


def test_where_it_is_required_no_one_gets_in_before_it_is_set_up(everybody: dict[str, User], settings: Any) -> None:
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    client = Client()
    client.post("/sign-in/", PASSWORD)
    assert "A second factor is required" in client.get("/sign-in/code/").content.decode()
    assert not signed_in(client)
    done = client.post("/sign-in/code/", {"code": app_of(everybody["ana"]).now()})
    assert "Save your recovery codes" in done.content.decode()
    assert 'href="/runs/"' in done.content.decode()
    assert signed_in(client)


def test_sessions_begun_without_it_end_when_it_becomes_required(as_: Any, settings: Any) -> None:
    client = as_("ana")
    assert signed_in(client)
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    assert not signed_in(client)
