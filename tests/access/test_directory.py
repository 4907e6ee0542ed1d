from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from checkpoints.models import Absence, Grant
from tests import people
from wfdash.access.directory import people_who, readers
from wfdash.access.viewer import Origin

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _everybody():
    people.make_people()


def names(found) -> list[str]:
    return [person.name for person in found]


def test_who_may_do_what_for_a_workflow():
    assert names(people_who("answer", "expense")) == ["adam", "ana", "ben", "otto"]
    assert names(people_who("see", "expense")) == ["adam", "ana", "ben", "otto", "vera"]
    assert names(people_who("operate", "expense", names=["ana", "otto"])) == ["otto"]
    assert names(people_who("answer", "expense", limit=2)) == ["adam", "ana"]


def test_rights_of_groups_count_and_those_for_other_workflows_do_not():
    for name, workflow in ("gus", "expense"), ("hal", "other"):
        group = Group.objects.create(name=name)
        User.objects.create(username=name).groups.add(group)
        Grant.objects.create(group=group, role="reviewer", workflow=workflow)
    User.objects.create_superuser("root")
    User.objects.filter(username="ben").update(is_active=False)
    assert names(people_who("answer", "expense")) == ["adam", "ana", "gus", "otto", "root"]


def test_everybody_comes_with_groups_and_those_they_stand_in_for(django_assert_num_queries):
    now = timezone.now()
    ana, ben = User.objects.get(username="ana"), User.objects.get(username="ben")
    Absence.objects.create(user=ana, delegate=ben, since=now - timedelta(days=1), until=now + timedelta(days=1))
    with django_assert_num_queries(1):
        found = {person.name: person for person in people_who("answer", "expense")}
    assert found["ana"].groups == {"finance"}
    assert found["ben"].addressed(["finance"], (), Origin())
    assert not found["otto"].addressed(["finance"], (), Origin())


def test_who_may_read_a_card():
    assert names(readers("expense", ["finance"], Origin())) == ["adam", "ana", "otto", "vera"]
    assert names(readers("expense", ["finance"], Origin(starter="sam"), names=["ben", "sam"])) == ["sam"]
