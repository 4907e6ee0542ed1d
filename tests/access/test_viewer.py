from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User

from checkpoints.models import Grant
from wfdash.access.viewer import Origin, viewer_for, watcher_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana")


def test_a_stranger_has_no_right_at_all(ana: User) -> None:
    for viewer in (viewer_for(ana), viewer_for(AnonymousUser())):
        assert not viewer.may_anywhere("see")
        assert not viewer.may("see", "expense")


def test_someone_who_left_has_no_right_even_as_superuser(ana: User) -> None:
    ana.is_active, ana.is_superuser = False, True
    assert not viewer_for(ana).may("see", "expense")


def test_a_grant_counts_for_its_workflow_alone(ana: User) -> None:
    Grant.objects.create(user=ana, workflow="expense", role="operator")
    viewer = viewer_for(ana)
    assert viewer.may("operate", "expense")
    assert not viewer.may("see", "patch")


def test_a_grant_of_a_group_counts_for_its_members(ana: User) -> None:
    finance = Group.objects.create(name="finance")
    ana.groups.add(finance)
    Grant.objects.create(group=finance, role="reviewer")
    viewer = viewer_for(ana)
    assert viewer.may("answer", "anything")
    assert not viewer.may("inspect", "anything")


@pytest.mark.parametrize(
    ("by", "not_by", "requester", "may"),
    [
        ([], [], None, True),
        (["ana"], [], None, True),
        (["finance"], [], None, True),
        (["ben"], [], None, False),
        ([], ["ana"], None, False),
        (["ana"], ["ana"], None, False),
        ([], ["requester"], "ana", False),
        ([], ["requester"], "ben", True),
        (["requester"], [], "ana", True),
        (["requester"], [], "ben", False),
    ],
)
def test_a_request_says_who_may_answer(ana: User, by, not_by, requester, may) -> None:
    ana.groups.add(Group.objects.create(name="finance"))
    assert viewer_for(ana).addressed(by, not_by, Origin(starter=requester or "")) is may


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("boss", [True, False])
def test_who_only_watches_has_the_same_rights_for_one_query(
    ana: User, boss: bool, active: bool, django_assert_num_queries
) -> None:
    ana.is_superuser, ana.is_active = boss, active
    for name, role in (("finance", "reviewer"), ("legal", "viewer")):
        group = Group.objects.create(name=name)
        Grant.objects.create(group=group, role=role, workflow=name)
        Grant.objects.create(group=Group.objects.create(name=f"not {name}"), role="admin", workflow=name)
        ana.groups.add(group)
    Grant.objects.create(user=ana, role="operator", workflow="finance")
    Grant.objects.create(user=User.objects.create_user("ben"), role="admin")
    with django_assert_num_queries(1 if active else 0):
        watcher = watcher_for(ana)
    assert watcher.rights == viewer_for(ana).rights
    assert watcher.name == viewer_for(ana).name
    assert watcher.may("operate", "finance") is active
    assert watcher.may("admin", "legal") is (active and boss)


@pytest.mark.parametrize(
    ("by", "not_by", "starter", "others", "may"),
    [
        ([], ["finance"], "", [], False),
        (["ana"], ["finance"], "", [], False),
        ([], ["requester"], "ben", ["ana"], False),
        ([], [], "ben", ["ana"], True),
        (["requester"], [], "ben", ["ana"], False),
    ],
)
def test_a_group_is_excluded_and_so_is_who_counts_as_requester(ana: User, by, not_by, starter, others, may) -> None:
    ana.groups.add(Group.objects.create(name="finance"))
    assert viewer_for(ana).addressed(by, not_by, Origin(starter=starter, others=frozenset(others))) is may


def test_the_word_requester_never_names_a_user_or_a_group(ana: User) -> None:
    ana.groups.add(Group.objects.create(name="requester"))
    named = User.objects.create_user("requester")
    for user in (ana, named):
        assert not viewer_for(user).addressed(["requester"], [], Origin(starter="ben"))
