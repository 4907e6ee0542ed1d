"""The admin says of groups and grants what would be surprising later."""

from __future__ import annotations

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Group, User
from django.test import Client

from checkpoints.models import Checkpoint, Grant
from tests import people
from wfdash.engines import catalog


@pytest.fixture
def admin(db, settings) -> Client:
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], []
    catalog.load.cache_clear()
    client = Client()
    client.force_login(User.objects.create_superuser("adam"))
    yield client
    catalog.load.cache_clear()


def test_the_admin_looks_like_the_dashboard(admin: Client) -> None:
    assert "css/standalone/admin.css" in admin.get("/admin/").content.decode()


@pytest.mark.parametrize("name", ["requester", "adam", "two\nlines", "a,b", " x", "*"])
def test_a_group_whose_name_means_something_else_is_refused(name: str, admin: Client) -> None:
    page = admin.post("/admin/auth/group/add/", {"name": name})
    assert page.status_code == 200 or name == " x"
    assert Group.objects.filter(name=name).count() == 0


def test_a_group_by_an_ordinary_name_is_made(admin: Client) -> None:
    assert admin.post("/admin/auth/group/add/", {"name": "Legal team-2"}).status_code == 302
    assert Group.objects.get().name == "Legal team-2"


def test_a_grant_for_a_workflow_that_is_not_served_is_warned_about(admin: Client) -> None:
    given = {"user": User.objects.get().pk, "workflow": "vendor_onboardng", "role": "viewer"}
    page = admin.post("/admin/checkpoints/grant/add/", given, follow=True)
    assert "Workflow vendor_onboardng is not loaded" in page.content.decode()
    assert Grant.objects.get().workflow == "vendor_onboardng"
    page = admin.post("/admin/checkpoints/grant/add/", {**given, "workflow": "*"}, follow=True)
    assert "No workflow named" not in page.content.decode()


def test_every_column_of_a_list_is_a_field_or_says_how_it_is_made() -> None:
    for model, shown in site._registry.items():
        fields = {name for field in model._meta.concrete_fields for name in (field.name, field.attname)}
        unknown = {
            name
            for name in shown.get_list_display(None)  # type: ignore[arg-type]
            if isinstance(name, str) and name not in fields | {"__str__"} and not hasattr(shown, name)
        }
        assert not unknown, f"{model.__name__}: {unknown} is neither a field nor a method of its admin"


def test_the_list_of_checkpoints_shows_which_are_damaged(admin: Client) -> None:
    run = people.make_run()
    people.save(run)
    damaged = people.save(run)
    Checkpoint.objects.filter(pk=damaged.pk).update(intact=False)
    page = admin.get("/admin/checkpoints/checkpoint/").content.decode()
    assert page.count("icon-yes") == page.count("icon-no") == 1
