"""Guessing passwords, and what guessing may do to everyone else."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import aauthenticate
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import connections
from django.test import Client

from wfdash import settings as own
from wfdash.access.signin import attempt_limits, backend
from wfdash.access.signin.attempt_limits import NAME, PAIR
from wfdash.access.signin.backend import CHECKING, WAITING, Slots
from wfdash.access.signin.links import create_link
from wfdash.domain.errors import Busy, TooManyTries
from wfdash.web.http import PagesHandler

LOCAL = [ipaddress.ip_network("127.0.0.1")]


def sign_in(name: str, password: str = "wrong", client: Client | None = None, **extra: str) -> Any:
    return (client or Client()).post("/sign-in/", {"username": name, "password": password}, **extra)


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss", password="boss-password")


def test_the_administration_has_no_sign_in_of_its_own(boss: User) -> None:
    assert Client().get("/admin/", follow=True).redirect_chain[-1][0] == "/sign-in/?next=/admin/"
    tried = Client().post("/admin/login/?next=/admin/", {"username": "boss", "password": "boss-password"})
    assert tried.url.startswith("/sign-in/")
    assert "sessionid" not in tried.cookies


def test_someone_who_may_not_administrate_is_told_so_and_not_sent_round(as_: Callable[[str], Client]) -> None:
    answer = as_("ana").get("/admin/", follow=True)
    assert (answer.status_code, len(answer.redirect_chain)) == (403, 1)


@pytest.mark.parametrize("door", ["page", "backend"])
def test_after_many_wrong_passwords_the_right_one_is_refused_at_every_door(door: str, boss: User) -> None:
    for _ in range(PAIR):
        assert sign_in("boss").status_code == 422
    if door == "page":
        refused = sign_in("boss", "boss-password")
        assert refused.status_code == 429
        assert 0 < int(refused.headers["Retry-After"]) <= 300
        assert "one-time link" in refused.content.decode()
    else:
        for _ in range(NAME - PAIR):
            assert backend.PasswordBackend().authenticate(None, username="boss", password="wrong") is None
        with pytest.raises(TooManyTries):
            backend.PasswordBackend().authenticate(None, username="boss", password="boss-password")


@pytest.mark.django_db(transaction=True)
async def test_django_s_async_door_counts_too() -> None:
    for _ in range(NAME):
        assert await aauthenticate(None, username="boss", password="wrong") is None
    with pytest.raises(TooManyTries):
        await aauthenticate(None, username="boss", password="wrong")


def test_one_address_cannot_try_one_name_after_the_other(
    everybody: dict[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_limits, "ADDRESS", 5)
    statuses = [sign_in(f"made-up-{n}").status_code for n in range(6)]
    assert statuses == [422] * 5 + [429]
    assert sign_in("ana", "ana-password", REMOTE_ADDR="203.0.113.9").status_code == 302


def test_other_names_do_not_make_a_limit_forgotten(everybody: dict[str, User]) -> None:
    for n in range(PAIR):
        sign_in("ana")
        sign_in(f"made-up-{n}")
    assert sign_in("ana", "ana-password").status_code == 429


def test_all_addresses_together_cannot_try_forever(everybody: dict[str, User], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_limits, "ALL", 5)
    statuses = [sign_in(f"made-up-{n}", REMOTE_ADDR=f"203.0.113.{n}").status_code for n in range(6)]
    assert statuses == [422] * 5 + [429]


def test_many_addresses_cannot_try_one_name_forever(everybody: dict[str, User]) -> None:
    statuses = [sign_in("ana", REMOTE_ADDR=f"203.0.113.{n}").status_code for n in range(NAME + 1)]
    assert statuses == [422] * NAME + [429]


@pytest.mark.parametrize("proxies", [LOCAL, []])
def test_strangers_behind_the_same_proxy_do_not_lock_a_person_out(
    proxies: list[Any], everybody: dict[str, User], settings: Any
) -> None:
    settings.WFDASH_HTTPS, settings.WFDASH_PROXIES = True, proxies
    strangers, ana = {"HTTP_X_FORWARDED_FOR": "203.0.113.7"}, {"HTTP_X_FORWARDED_FOR": "198.51.100.2"}
    home = Client()
    assert sign_in("ana", "ana-password", home, **ana).status_code == 302
    home.post("/sign-out/")
    for _ in range(NAME):
        sign_in("ana", **strangers)
    assert sign_in("ana", "ana-password", **strangers).status_code == 429
    assert sign_in("ana", "ana-password", home, **ana).status_code == 302, "her browser is known"
    assert Client().post(create_link(everybody["ana"])).status_code == 302


def test_a_header_that_no_proxy_wrote_does_not_change_whose_tries_they_are(everybody: dict[str, User]) -> None:
    statuses = [sign_in("ana", HTTP_X_FORWARDED_FOR=f"198.51.100.{n}").status_code for n in range(PAIR + 1)]
    assert statuses[-1] == 429


def test_a_known_browser_has_a_limit_too_and_is_known_for_its_person_alone(everybody: dict[str, User]) -> None:
    home = Client()
    sign_in("ana", "ana-password", home)
    home.post("/sign-out/")
    assert [sign_in("ana", client=home).status_code for _ in range(PAIR + 1)] == [422] * PAIR + [429]
    assert [sign_in("ben", client=home).status_code for _ in range(PAIR + 1)] == [422] * PAIR + [429]


def test_passwords_are_kept_with_argon2_and_old_hashes_are_made_again(
    everybody: dict[str, User], settings: Any
) -> None:
    settings.PASSWORD_HASHERS = own.PASSWORD_HASHERS
    old = make_password("ana-password", hasher="pbkdf2_sha1")
    User.objects.filter(username="ana").update(password=old)
    assert sign_in("ana", "ana-password").status_code == 302
    assert User.objects.get(username="ana").password.startswith("argon2$argon2id$")


@pytest.mark.parametrize("password", ["aaaaaaaa", "12345678901234", "password1234", "anastasia.f"])
def test_weak_passwords_are_refused(password: str, db: None) -> None:
    with pytest.raises(ValidationError):
        validate_password(password, User(username="anastasia.f"))


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, list[int]]]:
    """Password checks that take until the event is set; the list grows by one at the begin of each."""
    go, begun = threading.Event(), []

    def never(self: Any, request: Any, **given: Any) -> None:
        begun.append(1)
        assert go.wait(30)

    monkeypatch.setattr("django.contrib.auth.backends.ModelBackend.authenticate", never)
    monkeypatch.setattr(backend, "slots", Slots(seconds=20))
    yield go, begun
    go.set()


def test_few_passwords_are_checked_at_a_time_and_who_comes_then_is_refused_at_once(
    stuck: tuple[threading.Event, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = stuck
    for name in ("check", "charge"):
        monkeypatch.setattr(f"wfdash.access.signin.attempt_limits.{name}", lambda *given: None)

    def one(number: int) -> int:
        try:
            backend.PasswordBackend().authenticate(None, username="ana", password="x")
        except Busy as error:
            refused.append(error.facts["retry_after"])
            if len(refused) == 16 - CHECKING - WAITING:
                go.set()
            return 503
        return 422

    refused: list[int] = []
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(one, range(16)))
    assert len(begun) == CHECKING + WAITING
    assert sorted(answers) == [422] * (CHECKING + WAITING) + [503] * (16 - CHECKING - WAITING)


@pytest.mark.django_db(transaction=True)
async def test_the_inbox_is_served_while_strangers_keep_the_password_check_busy(
    stuck: tuple[threading.Event, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each thread would keep its connection, beyond the test.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    cookie = await sync_to_async(_session_of_someone)()
    token = "a" * 32
    form = {"username": "ana", "password": "x", "csrfmiddlewaretoken": token}
    server = httpx.ASGITransport(app=PagesHandler())
    async with httpx.AsyncClient(transport=server, base_url="http://localhost", timeout=30) as client:
        tries = [
            asyncio.create_task(client.post("/sign-in/", data=form, headers={"Cookie": f"csrftoken={token}"}))
            for _ in range(16)
        ]
        while sum(task.done() for task in tries) < 16 - CHECKING - WAITING:
            await asyncio.wait([task for task in tries if not task.done()], return_when=asyncio.FIRST_COMPLETED)
        for address in ("/", "/livez"):
            assert (await client.get(address, headers={"Cookie": f"sessionid={cookie}"})).status_code == 200
        stuck[0].set()
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*tries))
    assert statuses == [422] * (CHECKING + WAITING) + [503] * (16 - CHECKING - WAITING)


def _session_of_someone() -> str:
    client = Client()
    client.force_login(User.objects.create_user("somebody"))
    return str(client.cookies["sessionid"].value)
