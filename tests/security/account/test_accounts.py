"""Acts on accounts and rights are entries of the audit, whichever door they came through."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client

from checkpoints.models import AuditEntry, Grant
from tests import people
from wfdash.access.signin.links import create_link
from wfdash.actions import audit as audit_entries

pytestmark = pytest.mark.django_db


def entries() -> list[tuple[str, str, dict[str, Any]]]:
    """Return actor, verb and facts of every entry but sign-ins, oldest first."""
    rows = AuditEntry.objects.exclude(verb="sign in").order_by("n")
    return [(row.actor, row.verb, row.facts) for row in rows]


@pytest.fixture
def root(client: Client) -> Client:
    """Sign a superuser in."""
    client.force_login(User.objects.bulk_create([User(username="root", is_superuser=True, is_staff=True)])[0])
    return client


def test_a_superuser_who_takes_an_account_over_leaves_a_trace(root: Client) -> None:
    """The attack: a role and a password by the admin pages, then a sign-in as someone else."""
    people.make_people()
    vera = User.objects.get(username="vera")
    new = {"password1": "a-long-enough-one-4711", "password2": "a-long-enough-one-4711", "usable_password": "true"}
    assert root.post(f"/admin/auth/user/{vera.pk}/password/", new).status_code == 302
    given = {"user": vera.pk, "workflow": "*", "role": "admin"}
    assert root.post("/admin/checkpoints/grant/add/", given).status_code == 302
    assert Client().login(username="vera", password="a-long-enough-one-4711")
    assert entries() == [
        ("root", "change password", {"user": "vera"}),
        ("root", "grant", {"user": "vera", "workflow": "*", "role": "admin"}),
    ]
    assert list(AuditEntry.objects.filter(verb="sign in").values_list("actor", flat=True)) == ["root", "vera"]
    assert audit_entries.check_chain()[1] == []


def test_users_groups_and_grants_are_recorded_from_their_beginning_to_their_end() -> None:
    user = User.objects.create_user("nora", password="x" * 12)
    user.username, user.is_superuser = "nora.b", True
    user.save()
    user.is_active = False
    user.save(update_fields=["is_active"])
    group = Group.objects.create(name="finance")
    group.name = "treasury"
    group.save()
    user.groups.add(group)
    group.user_set.clear()
    user.user_permissions.add(Permission.objects.get(codename="add_grant"))
    grant = Grant.objects.create(user=user, role="viewer", workflow="expense")
    grant.role = "admin"
    grant.save()
    user.delete()
    group.delete()
    told = [(verb, facts) for actor, verb, facts in entries() if actor == "command line"]
    assert [verb for verb, _ in told] == [
        *("create user", "change user", "change user", "create group", "rename group"),
        *("add to group", "remove from group", "add permission", "grant", "change grant"),
        *("delete user", "revoke", "delete group"),
    ]
    facts = dict(told[:2])
    assert facts["create user"]["user"] == "nora"
    assert facts["change user"]["after"] == {"username": "nora.b", "is_superuser": True}
    assert told[2][1] == {"user": "nora.b", "before": {"is_active": True}, "after": {"is_active": False}}
    assert told[4][1] == {"group": "finance", "to": "treasury"}
    assert told[5][1] == told[6][1] == {"users": ["nora.b"], "groups": ["treasury"]}
    assert told[7][1] == {"user": ["nora.b"], "permissions": ["checkpoints.add_grant"]}
    assert told[9][1]["after"]["role"] == "admin"


def test_nothing_that_stays_as_it_was_is_an_entry() -> None:
    user = User.objects.create_user("nora")
    before = AuditEntry.objects.count()
    user.save()
    user.save(update_fields=["last_login"])
    user.groups.set([])
    assert AuditEntry.objects.count() == before


def test_no_password_is_in_an_entry() -> None:
    user = User.objects.create_user("nora", password="hunter2-hunter2")
    user.set_password("hunter3-hunter3")
    user.save()
    told = str(entries())
    assert "change password" in told
    assert "hunter" not in told
    assert user.password not in told


def test_a_hash_that_is_renewed_at_sign_in_is_not_called_a_new_password(settings: Any) -> None:
    user = User.objects.create_user("nora")
    settings.PASSWORD_HASHERS = [*settings.PASSWORD_HASHERS, "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    User.objects.update(password=PBKDF2PasswordHasher().encode("x" * 12, "salt", iterations=1))
    user.refresh_from_db()
    assert user.check_password("x" * 12)
    assert entries()[-1][1:] == ("renew password hash", {"user": "nora"})


def test_a_link_is_recorded_when_it_is_made_and_when_it_is_used(client: Client) -> None:
    everybody = people.make_people()
    call_command("signin", "ana", stdout=io.StringIO())
    assert entries()[-1][:2] == ("command line", "make sign-in link")
    assert entries()[-1][2]["user"] == "ana"
    assert client.post(create_link(everybody["ana"])).status_code == 302
    used = AuditEntry.objects.latest("n")
    assert (used.actor, used.verb, used.facts["how"]) == ("ana", "sign in", "link")
    client.post("/sign-out/")
    out = AuditEntry.objects.latest("n")
    assert (out.actor, out.verb) == ("ana", "sign out")


def test_administrators_read_of_accounts_and_everybody_of_their_own(client: Client) -> None:
    everybody = people.make_people()
    Grant.objects.create(user=everybody["sam"], role="viewer", workflow="*")
    client.force_login(everybody["ana"])
    for name, sees in {"adam": True, "otto": False, "vera": False}.items():
        client.force_login(everybody[name])
        page = client.get("/audit/").content.decode()
        assert ("command line" in page) is sees
        assert "signed in" in page.lower()


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_export_of_the_audit_is_itself_an_entry(client: Client, kind: str) -> None:
    client.force_login(people.make_people()["adam"])
    assert client.get(f"/audit/export.{kind}?q=actor:ana").status_code == 200
    assert entries() == [("adam", "export", {"what": "audit", "filter": "actor:ana", "kind": kind})]
