from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, Permission, User

from checkpoints.models import Grant
from tests import people
from tests.people import WORKFLOW
from wfdash.engines import catalog


@pytest.fixture(autouse=True)
def _no_workflows(settings) -> Iterator[None]:
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], []
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()


@pytest.fixture
def everyone(db) -> dict[str, User]:
    """Add to the people of all tests: Wanda is admin of one workflow only, Rita a superuser, Stan of Django's staff."""
    made = people.make_people()
    # In bulk, as no signal tells of it: the audit of a test begins with what the test does.
    more = [User(username="wanda"), User(username="rita", is_superuser=True), User(username="stan", is_staff=True)]
    made |= {user.username: user for user in User.objects.bulk_create(more)}
    Grant.objects.bulk_create([Grant(user=made["wanda"], role="admin", workflow=WORKFLOW)])
    (site,) = Group.objects.bulk_create([Group(name="site")])
    permission = Permission.objects.get(codename="change_user")
    member = Group.permissions.through
    member.objects.bulk_create([member(group=site, permission=permission)])
    return made
