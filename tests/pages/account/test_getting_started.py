from __future__ import annotations

import pytest
from django.test import Client

from checkpoints.models import Preference, Run
from tests import people as made
from wfdash.queries.account import read_getting_started

TITLE = "Set up this installation"


@pytest.fixture
def adam(people, client: Client) -> Client:
    client.force_login(people["adam"])
    return client


def shown(person: Client, address: str = "/") -> bool:
    return TITLE in person.get(address).content.decode()


def test_empty_lists_of_a_new_installation_say_what_is_left(adam: Client):
    assert shown(adam)
    assert shown(adam, "/runs/")
    assert not shown(adam, "/?q=risk:high")
    assert shown(adam, "/getting-started/")


def test_a_project_s_mail_and_database_are_its_own(adam: Client, settings):
    assert "smtp://" in adam.get("/getting-started/").content.decode()
    settings.WFDASH_SIGN_IN = False
    page = adam.get("/getting-started/").content.decode()
    assert "smtp://" not in page
    assert "data directory" not in page
    assert "WFDASH_MAIL = True" in page


def test_a_list_with_rows_is_left_alone(adam: Client):
    made.make_run()
    assert not shown(adam, "/runs/")


def test_each_step_is_known_by_facts(adam: Client, settings):
    before = read_getting_started(made.viewer("adam"))
    assert (before.run, before.notifications, before.encryption) == (False, False, False)
    made.make_run()
    settings.WFDASH_MAIL = "smtp://localhost"
    settings.WFDASH_ENCRYPTION_KEYS = "k"
    after = read_getting_started(made.viewer("adam"))
    assert (after.run, after.notifications, after.encryption, after.people) == (True, True, True, True)
    assert after.done > before.done


def test_who_dismisses_it_never_sees_it_again_in_lists(adam: Client):
    assert adam.post("/getting-started/").status_code == 302
    assert not shown(adam)
    assert not shown(adam, "/runs/")
    assert shown(adam, "/getting-started/")
    assert Preference.objects.get().looks["first_steps"] == "dismissed"


def test_it_is_for_admins(people):
    for name in ("ana", "otto", "vera", "sam"):
        person = Client()
        person.force_login(people[name])
        assert not shown(person)
        assert person.get("/getting-started/").status_code == 403
    assert not Run.objects.exists()
