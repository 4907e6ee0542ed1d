from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import SignInLink
from wfdash.access.signin.attempt_limits import PAIR
from wfdash.access.signin.links import create_link


@pytest.fixture
def link(everybody) -> str:
    return create_link(everybody["ana"])


def test_a_password_signs_in_and_goes_where_one_was_going(everybody):
    client = Client()
    answer = client.post("/sign-in/", {"username": "ana", "password": "ana-password", "next": "/runs/?q=x"})
    assert (answer.status_code, answer.url) == (302, "/runs/?q=x")
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_signing_in_never_leads_elsewhere(target, everybody):
    assert Client().post("/sign-in/", {"username": "ana", "password": "ana-password", "next": target}).url == "/"


def test_a_wrong_password_keeps_the_name(everybody):
    answer = Client().post("/sign-in/", {"username": "ana", "password": "wrong"})
    assert answer.status_code == 422
    assert 'value="ana"' in answer.content.decode()


def test_too_many_tries_are_slowed_down_for_that_name_and_address(everybody):
    client = Client()
    for _ in range(PAIR):
        client.post("/sign-in/", {"username": "ana", "password": "wrong"})
    assert client.post("/sign-in/", {"username": "ana", "password": "ana-password"}).status_code == 429
    assert client.post("/sign-in/", {"username": "ben", "password": "ben-password"}).status_code == 302
    elsewhere = Client(REMOTE_ADDR="10.0.0.9")
    assert elsewhere.post("/sign-in/", {"username": "ana", "password": "ana-password"}).status_code == 302


def test_looking_at_a_link_does_not_use_it_up(link):
    for _ in range(3):
        assert "Sign in as ana" in Client().get(link).content.decode()
    client = Client()
    assert client.post(link).status_code == 302
    assert client.get("/").status_code == 200


def test_a_link_works_once(link):
    Client().post(link)
    for answer in (Client().get(link), Client().post(link)):
        assert answer.status_code == 404
        assert "already been used" in answer.content.decode()


def test_an_old_link_says_that_it_has_expired(link):
    SignInLink.objects.update(expires=timezone.now() - timedelta(minutes=1))
    page = Client().get(link).content.decode()
    assert "Sign-in link not valid" in page
    assert "has expired" in page
    assert "never created" in Client().get("/sign-in/unknown/").content.decode()


def test_an_unknown_link_says_so(everybody):
    assert Client().get("/sign-in/nonsense/").status_code == 404


def test_signing_out_takes_a_post(as_):
    client = as_("ana")
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").status_code == 302
    assert client.get("/").status_code == 302
