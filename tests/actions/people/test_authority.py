"""No one gets more rights than they had, and someone can always administer: one table of who tries what."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User

from checkpoints.models import AuditEntry, Grant
from tests.people import WORKFLOW, viewer
from wfdash.access.viewer import Viewer
from wfdash.actions.people import accounts, roles
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState

Try = Callable[[Viewer], object]
NOW = datetime.now(UTC)
AWAY = (NOW, NOW + timedelta(days=2))


def grant_of(name: str, workflow: str = "*") -> int:
    return Grant.objects.get(user__username=name, workflow=workflow).pk


# Verb, what is tried, and for each person what comes of it: None if it is done.
TABLE: list[tuple[str, Try, dict[str, type[Exception] | None]]] = [
    (
        "grant oneself every workflow",
        lambda v: roles.grant_role(v, "admin", person=v.name),
        {"ana": NotAllowed, "otto": NotAllowed, "wanda": NotAllowed, "adam": Invalid, "sam": NotAllowed},
    ),
    (
        "grant a role for another workflow",
        lambda v: roles.grant_role(v, "viewer", workflow="payroll", person="sam"),
        {"ana": NotAllowed, "otto": NotAllowed, "wanda": NotAllowed, "adam": None, "rita": None},
    ),
    (
        "grant a role for every workflow spelled with spaces",
        lambda v: roles.grant_role(v, "viewer", workflow="  * ", person="sam"),
        {"wanda": NotAllowed, "adam": None},
    ),
    (
        "grant a role for one's own workflow",
        lambda v: roles.grant_role(v, "reviewer", workflow=WORKFLOW, person="sam"),
        {"ana": NotAllowed, "otto": NotAllowed, "wanda": None, "adam": None},
    ),
    (
        "grant a role to a group that one may not know",
        lambda v: roles.grant_role(v, "viewer", workflow=WORKFLOW, group="finance"),
        {"wanda": Invalid, "adam": None, "ana": NotAllowed},
    ),
    (
        "grant a role that does not exist",
        lambda v: roles.grant_role(v, "root", workflow=WORKFLOW, person="sam"),
        {"wanda": Invalid, "adam": Invalid},
    ),
    (
        "revoke a role for every workflow",
        lambda v: roles.revoke_role(v, grant_of("ana")),
        {"ana": NotFound, "otto": NotFound, "wanda": NotAllowed, "adam": None},
    ),
    (
        "revoke the admin of one's workflow",
        lambda v: roles.revoke_role(v, grant_of("wanda", WORKFLOW)),
        {"otto": NotFound, "wanda": None, "adam": None},
    ),
    (
        "revoke one's own admin role while there is another admin",
        lambda v: roles.revoke_role(v, grant_of("adam")),
        {"adam": None, "wanda": NotAllowed},
    ),
    (
        "invite someone as admin",
        lambda v: accounts.invite_person(v, "new", roles=[("admin", "*")]),
        {"ana": NotAllowed, "otto": NotAllowed, "wanda": NotAllowed, "adam": None},
    ),
    (
        "invite someone into a group with Django permissions",
        lambda v: accounts.invite_person(v, "new", groups=["site"]),
        {"adam": NotAllowed, "rita": None},
    ),
    (
        "join a group",
        lambda v: roles.add_member(v, "finance", v.name),
        {"otto": NotAllowed, "wanda": NotAllowed, "adam": None},
    ),
    (
        "join a group with Django permissions",
        lambda v: roles.add_member(v, "site", v.name),
        {"wanda": NotAllowed, "adam": NotAllowed, "rita": None},
    ),
    (
        "rename a group with Django permissions",
        lambda v: roles.rename_group(v, "site", "club"),
        {"adam": NotAllowed, "rita": None},
    ),
    ("make a group", lambda v: roles.make_group(v, "legal"), {"otto": NotAllowed, "wanda": NotAllowed, "adam": None}),
    ("delete a group", lambda v: roles.delete_group(v, "finance"), {"wanda": NotAllowed, "adam": None}),
    (
        "sign in as an equal",
        lambda v: accounts.make_sign_in_link(v, "ana"),
        {"otto": NotAllowed, "wanda": NotAllowed, "adam": None},
    ),
    (
        "sign in as a superuser",
        lambda v: accounts.make_sign_in_link(v, "rita"),
        {"wanda": NotAllowed, "adam": NotAllowed},
    ),
    ("sign in as staff", lambda v: accounts.make_sign_in_link(v, "stan"), {"adam": NotAllowed, "rita": None}),
    ("make a link for oneself", lambda v: accounts.make_sign_in_link(v, v.name), {"adam": NotAllowed}),
    (
        "mail a superuser's links elsewhere",
        lambda v: accounts.change_address(v, "rita", "x@y.org"),
        {"adam": NotAllowed},
    ),
    ("reset a superuser's second factor", lambda v: accounts.reset_second_factor(v, "rita"), {"adam": NotAllowed}),
    ("reset one's own second factor", lambda v: accounts.reset_second_factor(v, v.name), {"adam": NotAllowed}),
    (
        "end a superuser's sessions",
        lambda v: accounts.end_sessions_of(v, "rita"),
        {"adam": NotAllowed, "otto": NotAllowed},
    ),
    ("deactivate oneself", lambda v: accounts.deactivate_person(v, v.name), {"adam": NotAllowed, "rita": NotAllowed}),
    ("deactivate a superuser", lambda v: accounts.deactivate_person(v, "rita"), {"adam": NotAllowed}),
    (
        "deactivate a colleague",
        lambda v: accounts.deactivate_person(v, "ana"),
        {"otto": NotAllowed, "wanda": NotAllowed, "adam": None},
    ),
    (
        "make oneself someone's delegate",
        lambda v: accounts.set_absence_of(v, "ana", v.name, *AWAY, reason="ill"),
        {"adam": NotAllowed, "rita": NotAllowed, "wanda": NotAllowed},
    ),
    (
        "name a delegate for someone",
        lambda v: accounts.set_absence_of(v, "ana", "ben", *AWAY, reason="ill"),
        {"otto": NotAllowed, "wanda": NotAllowed, "adam": None},
    ),
    (
        "name a delegate without a reason",
        lambda v: accounts.set_absence_of(v, "ana", "ben", *AWAY, reason=" \0 "),
        {"adam": Invalid},
    ),
]


@pytest.mark.parametrize(
    ("attempt", "name", "outcome"),
    [
        pytest.param(attempt, name, what, id=f"{verb} as {name}")
        for verb, attempt, row in TABLE
        for name, what in row.items()
    ],
)
def test_a_verb_is_done_or_refused_and_changes_nothing(attempt, name, outcome, everyone) -> None:
    before = state()
    if outcome is None:
        attempt(viewer(name))
        assert state() != before
        assert set(AuditEntry.objects.values_list("actor", "right").distinct()) >= {(name, "admin")}
        return
    entries = AuditEntry.objects.count()
    with pytest.raises(outcome):
        attempt(viewer(name))
    assert state() == before
    assert AuditEntry.objects.count() == entries


def state() -> tuple[object, ...]:
    """Return everything that decides who may do what."""
    from checkpoints.models import Absence, SignInLink

    return (
        sorted(User.objects.values_list("username", "is_active", "email", "is_superuser")),
        sorted(User.groups.through.objects.values_list("user__username", "group__name")),
        sorted(Group.objects.values_list("name", flat=True)),
        sorted(Grant.objects.values_list("user__username", "workflow", "role").filter(user__isnull=False)),
        sorted(Grant.objects.values_list("group__name", "workflow", "role").filter(group__isnull=False)),
        SignInLink.objects.count(),
        Absence.objects.count(),
    )


@pytest.fixture
def alone(everyone) -> Viewer:
    """Adam, the only one who is admin of every workflow, by a group."""
    User.objects.filter(is_superuser=True).update(is_active=False)
    Grant.objects.filter(user=everyone["adam"]).delete()
    board = Group.objects.create(name="board")
    board.user_set.add(everyone["adam"])
    Grant.objects.create(group=board, role="admin", workflow="*")
    return viewer("adam")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda v: roles.remove_member(v, "board", "adam"),
        lambda v: roles.delete_group(v, "board"),
        lambda v: roles.revoke_role(v, Grant.objects.get(group__name="board").pk),
    ],
)
def test_the_last_admin_cannot_lock_everyone_out(attempt: Try, alone: Viewer) -> None:
    before = state()
    with pytest.raises(WrongState, match="no admin of every workflow"):
        attempt(alone)
    assert state() == before
    roles.grant_role(alone, "admin", person="otto")
    attempt(alone)


def test_an_inactive_admin_is_no_one_to_rely_on(alone: Viewer) -> None:
    roles.grant_role(alone, "admin", person="otto")
    accounts.deactivate_person(alone, "otto")
    with pytest.raises(WrongState):
        roles.revoke_role(alone, Grant.objects.get(group__name="board").pk)


def test_an_admin_of_one_workflow_may_leave_it_without_an_admin_of_its_own(everyone) -> None:
    User.objects.filter(is_superuser=True).update(is_active=False)
    Grant.objects.filter(user__username="adam").delete()
    roles.revoke_role(viewer("wanda"), grant_of("wanda", WORKFLOW))
    assert not Grant.objects.filter(workflow=WORKFLOW).exists()


NAMES = [
    "requester",
    "Requester",
    "finance",
    "FINANCE",
    "ana",
    "ANA",
    "two words",
    "a/b",
    "",
    "x" * 151,
    "nul\0",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_person_s_name_means_one_person_and_nothing_else(name: str, everyone) -> None:
    with pytest.raises(Invalid):
        accounts.invite_person(viewer("adam"), name)
    assert User.objects.count() == len(everyone)


@pytest.mark.parametrize(
    "name", ["requester", "REQUESTER", "ana", "Ana", "Finance", "a,b", "*", "", "x" * 151, "nul\0"]
)
def test_a_group_s_name_means_one_group_and_nothing_else(name: str, everyone) -> None:
    with pytest.raises(Invalid):
        roles.make_group(viewer("adam"), name)
    with pytest.raises(Invalid):
        roles.rename_group(viewer("adam"), "site" if name == "Finance" else "finance", name) if name != "Finance" else (
            roles.rename_group(viewer("rita"), "site", name)
        )
    assert Group.objects.count() == 2
