"""Named people for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from checkpoints.models import Grant
from tests.queries.conftest import everybody as everybody
from wfdash.access.viewer import Viewer, viewer_for


@pytest.fixture
def as_(everybody: dict[str, User]) -> Callable[[str], Client]:
    def enter(name: str) -> Client:
        client = Client()
        if name:
            client.force_login(everybody[name])
        return client

    return enter


@pytest.fixture
def person(db: None) -> Callable[..., Viewer]:
    """Give what makes a person, once, with a role and groups, and returns their rights as they are stored now."""

    def make(name: str, role: str = "", *groups: str) -> Viewer:
        user, new = User.objects.get_or_create(username=name)
        if new and role:
            Grant.objects.create(user=user, role=role, workflow="*")
        for group in groups:
            user.groups.add(Group.objects.get_or_create(name=group)[0])
        return viewer_for(User.objects.get(pk=user.pk))

    return make
