"""Someone who is signed in and may see nothing reads whom to ask."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import Grant


@pytest.mark.parametrize("address", ["/", "/runs/", "/workflows/", "/settings/account/", "/nowhere/"])
def test_who_has_no_role_reads_whom_to_ask(address: str, as_) -> None:
    page = " ".join(as_("sam").get(address).content.decode().split())
    assert "You have no role yet, sam." in page
    assert "Ask adam:" in page


@pytest.mark.parametrize("name", ["ana", "vera", "adam", ""])
def test_who_has_one_or_is_not_signed_in_does_not(name: str, as_) -> None:
    for address in ("/", "/sign-in/", "/nowhere/"):
        page = as_(name).get(address, follow=True).content.decode()
        assert "You have no role yet" not in page


def test_three_admins_are_named_at_most_and_none_who_left(as_, everybody) -> None:
    for number in range(5):
        Grant.objects.create(user=User.objects.create_user(f"boss{number}"), role="admin")
    User.objects.filter(username="adam").update(is_active=False)
    assert "Ask boss0 or boss1 or boss2:" in " ".join(as_("sam").get("/").content.decode().split())


def test_an_installation_without_an_admin_says_so(db) -> None:
    client = Client()
    client.force_login(User.objects.create_user("sam"))
    assert "Ask the person who runs this server." in " ".join(client.get("/").content.decode().split())
