"""One's own account: the password with its limits, and the browsers one is signed in with."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from checkpoints.models import AuditEntry
from tests.pages.account.test_second_factor import app_of, turn_on
from wfdash.access.signin.links import create_link, find_link
from wfdash.access.signin.sessions import browser_name

ADDRESS = "/settings/account/"
NEW = "correct horse battery"
FORM = {"act": "password", "current": "ana-password", "new": NEW, "repeated": NEW}


def page_of(client: Client) -> str:
    return client.get(ADDRESS).content.decode()


def signed_in(client: Client) -> bool:
    return client.get("/").status_code == 200


@pytest.fixture
def other(people) -> Client:
    client = Client(HTTP_USER_AGENT="Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0")
    client.post("/sign-in/", {"username": "ana", "password": "ana-password"})
    return client


def test_a_new_password_signs_in_and_signs_every_other_browser_out(ana: Client, other: Client, people) -> None:
    link = create_link(people["ana"])
    assert ana.post(ADDRESS, FORM).status_code == 302
    assert signed_in(ana)
    assert not signed_in(other)
    people["ana"].refresh_from_db()
    assert people["ana"].check_password(NEW)
    assert people["ana"].password.startswith("argon2") or "md5" in people["ana"].password
    assert Client().get(link).status_code == 404, "an unused link ends, too"
    entry = AuditEntry.objects.get(verb="change password")
    assert entry.actor == "ana"
    assert NEW not in str(entry.facts)


def test_a_session_that_was_copied_before_is_worth_nothing_after(ana: Client) -> None:
    thief = Client()
    thief.cookies["sessionid"] = ana.cookies["sessionid"].value
    assert signed_in(thief)
    ana.post(ADDRESS, FORM)
    assert not signed_in(thief)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("current", {"current": "wrong"}),
        ("current", {"current": ""}),
        ("current", {"current": "x" * 5_000}),
        ("repeated", {"repeated": "another one"}),
        ("new", {"new": "short", "repeated": "short"}),
        ("new", {"new": "1" * 14, "repeated": "1" * 14}),
        ("new", {"new": "x" * 1001, "repeated": "x" * 1001}),
        ("new", {"new": "", "repeated": ""}),
    ],
)
def test_a_password_that_is_refused_changes_nothing(field: str, given: dict[str, str], ana: Client, people) -> None:
    answer = ana.post(ADDRESS, {**FORM, **given})
    assert answer.status_code == 422
    assert f'id="{field}-error"' in answer.content.decode()
    assert NEW not in answer.content.decode()
    people["ana"].refresh_from_db()
    assert people["ana"].check_password("ana-password")


def test_guessing_the_current_password_in_someone_s_browser_ends_soon(ana: Client) -> None:
    tries = [ana.post(ADDRESS, {**FORM, "current": f"guess {n}"}).status_code for n in range(10)]
    assert tries == [422] * 8 + [429] * 2
    refused = ana.post(ADDRESS, FORM)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert Client().post("/sign-in/", {"username": "ana", "password": "ana-password"}).status_code == 302


def test_someone_without_a_password_sets_the_first_one(ana: Client, people) -> None:
    people["ana"].set_unusable_password()
    people["ana"].save()
    client = Client()
    client.post(create_link(people["ana"]))
    assert "Set a password" in page_of(client)
    assert client.post(ADDRESS, {"act": "password", "new": NEW, "repeated": NEW}).status_code == 302
    assert "Change your password" in page_of(client)


def test_a_first_password_needs_the_second_factor_where_there_is_one(people) -> None:
    user = people["ana"]
    user.set_unusable_password()
    user.save()
    client = Client()
    client.force_login(user)
    turn_on(user)
    given = {"act": "password", "new": NEW, "repeated": NEW}
    refused = client.post(ADDRESS, {**given, "code": "123"})
    assert refused.status_code == 422
    assert 'id="code-error"' in refused.content.decode()
    assert client.post(ADDRESS, {**given, "code": app_of(user).now()}).status_code == 302


def test_sessions_are_named_by_their_browser_and_ended_one_by_one(ana: Client, other: Client) -> None:
    shown = page_of(ana)
    assert "Firefox on Linux" in shown
    assert shown.count("this browser") == 1
    (session,) = re.findall(r'name="session" value="(\w+)"', shown)
    assert ana.post(ADDRESS, {"act": "end", "session": session}).status_code == 302
    assert not signed_in(other)
    assert signed_in(ana)
    assert "already ended" in ana.post(ADDRESS, {"act": "end", "session": session}, follow=True).content.decode()
    assert AuditEntry.objects.filter(verb="end sessions", actor="ana").count() == 1


def test_all_others_end_at_once(ana: Client, other: Client, people) -> None:
    third = Client()
    third.force_login(people["ana"])
    assert "End all other sessions" in page_of(ana)
    ana.post(ADDRESS, {"act": "others"})
    assert [signed_in(client) for client in (ana, other, third)] == [True, False, False]


def test_no_one_ends_the_sessions_of_others(ana: Client, other: Client, people) -> None:
    ben = Client()
    ben.force_login(people["ben"])
    (session,) = re.findall(r'name="session" value="(\w+)"', page_of(ana))
    for given in ({"act": "end", "session": session}, {"act": "end", "session": ""}, {"act": "others"}):
        ben.post(ADDRESS, given)
    assert signed_in(ana)
    assert signed_in(other)
    assert Session.objects.count() == 3
    assert find_link(create_link(people["ana"]).rstrip("/").rsplit("/", 1)[-1]).user == User.objects.get(username="ana")


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36 Edg/130.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Chrome/130.0 Safari/537.36", "Chrome on macOS"),
        ("<script>alert(1)</script>", "Unknown browser"),
        ("", "Unknown browser"),
    ],
)
def test_browsers_have_short_names(agent: str, name: str) -> None:
    assert browser_name(agent) == name
