"""Links that leave the installation: at the root, below a prefix, and by an address that has the prefix or not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.urls import get_script_prefix, reverse, set_script_prefix

from tests import people
from wfdash.access.signin.links import create_link
from wfdash.actions.requests.answer_links import answer_link
from wfdash.notifications.letters import mail_of
from wfdash.notifications.rendering import absolute


@pytest.fixture
def below() -> Iterator[None]:
    """The dashboard below /ops/, as the thread of a request knows it."""
    before = get_script_prefix()
    set_script_prefix("/ops/")
    yield
    set_script_prefix(before)


@pytest.fixture(params=["https://w.example.org", "https://w.example.org/ops", "https://w.example.org/ops/"])
def _address(request: pytest.FixtureRequest, settings) -> None:
    settings.WFDASH_URL = request.param


@pytest.mark.usefixtures("below", "_address")
def test_a_prefix_is_there_once_whether_the_address_has_it_or_not() -> None:
    assert absolute(reverse("wfdash:settings")) == "https://w.example.org/ops/settings/"
    assert absolute(reverse("wfdash:inbox")) == "https://w.example.org/ops/"


@pytest.mark.usefixtures("_address")
def test_a_job_knows_the_prefix_that_the_settings_force(settings) -> None:
    settings.FORCE_SCRIPT_NAME = "/ops"
    assert absolute(reverse("wfdash:settings")) == "https://w.example.org/ops/settings/"


def test_an_address_keeps_a_path_that_is_not_the_prefix(settings) -> None:
    settings.WFDASH_URL = "https://w.example.org/a/settings"
    assert absolute(reverse("wfdash:settings")) == "https://w.example.org/a/settings/settings/"
    assert absolute("/runs/", base="http://ops:8000/") == "http://ops:8000/runs/"


@pytest.mark.usefixtures("below")
def test_a_host_of_the_prefix_s_name_is_kept(settings) -> None:
    settings.WFDASH_URL = "https://ops"
    assert absolute(reverse("wfdash:runs")) == "https://ops/ops/runs/"


@pytest.mark.django_db
@pytest.mark.usefixtures("below", "_address")
def test_every_link_that_is_sent_or_shown_is_right_below_a_prefix(client) -> None:
    everybody = people.make_people()
    ana = everybody["ana"]
    client.force_login(everybody["otto"])
    given = {"name": "Shop", "scheme": "token", "mapping": '{"claims": []}', "act": "save"}
    made = client.post("/settings/incoming-webhooks/new/?workflow=expense_batch", given)
    made = client.get(made.headers["Location"].removeprefix("/ops"))
    set_script_prefix("/ops/")
    shown = [
        answer_link(people.ask(people.make_run()), ana),
        create_link(ana, base="https://w.example.org"),
        *re.findall(r"https://w\.example\.org[^\s<\"]*", mail_of(User(email="a@b.example"), [], zone="UTC").body),
        *re.findall(r"https://w\.example\.org[^\s<\"]*/hooks/[^\s<\"]*", made.content.decode()),
    ]
    assert len(shown) >= 4
    assert [link for link in shown if not re.match(r"https://w\.example\.org/(ops/)?(?!ops/)(\w|$)", link)] == []


@pytest.mark.django_db
@pytest.mark.usefixtures("below")
def test_a_sign_in_ends_at_the_dashboard_and_not_at_the_root_of_the_host(client) -> None:
    people.make_people()
    path = create_link(User.objects.get(username="ana")).removeprefix("/ops")
    assert client.post(path).headers["Location"] == "/ops/"
    client.logout()
    given = {"username": "ana", "password": "ana-password", "next": "https://evil.example"}
    assert client.post("/sign-in/", given).headers["Location"] == "/ops/"
