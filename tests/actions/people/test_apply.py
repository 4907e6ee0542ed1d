from __future__ import annotations

import pytest

from checkpoints.models import AuditEntry, Grant, ServiceAccount
from checkpoints.models.user_model import User
from tests import people
from tests.access.test_directory import _everybody as _everybody
from wfdash.actions.people.accounts import apply_people
from wfdash.actions.people.roles import command_line
from wfdash.domain.errors import Invalid, WrongState
from wfdash.domain.people_file import BadPeopleFile

pytestmark = pytest.mark.django_db

FILE = """
[people.adam]
roles = ["admin"]
[people.nora]
email = "nora@example.org"
roles = ["operator:expense"]
[service_accounts.robot]
about = "Import"
[groups.night]
members = ["nora", "robot"]
roles = ["reviewer"]
"""


def apply(text: str = FILE, **how: bool) -> list[str]:
    return apply_people(command_line(), text, **how)


def test_a_file_is_applied_once_and_then_changes_nothing():
    done = apply()
    assert done == [
        "make group night",
        "make person nora",
        "make service account robot",
        "add nora to group night",
        "add robot to group night",
        "grant operator of expense to nora",
        "grant reviewer of every workflow to group night",
    ]
    assert ServiceAccount.objects.get().user.get_username() == "robot"
    assert people.viewer("nora").may("answer", "any")
    assert not people.viewer("nora").user.has_usable_password()
    assert {entry.actor for entry in AuditEntry.objects.all()} == {"command line"}
    before = AuditEntry.objects.count()
    assert apply() == []
    assert AuditEntry.objects.count() == before


def test_a_dry_run_says_the_same_and_changes_nothing():
    said = apply(dry_run=True)
    assert not User.objects.filter(username="nora").exists()
    assert said == apply()


def test_what_a_file_does_not_name_stays_unless_it_is_pruned():
    apply()
    assert people.viewer("otto").may("operate", "any")
    done = apply(prune=True)
    assert "delete group finance" in done
    assert "revoke operator of every workflow to otto" in done
    assert "deactivate otto" in done
    assert not User.objects.get(username="otto").is_active
    assert set(Grant.objects.values_list("role", flat=True)) == {"admin", "operator", "reviewer"}
    assert apply(prune=True) == []


def test_the_last_admin_is_not_pruned_and_nothing_is_changed():
    with pytest.raises(WrongState, match="no admin"):
        apply(FILE.replace('roles = ["admin"]', "roles = []"), prune=True)
    assert not User.objects.filter(username="nora").exists()
    assert User.objects.get(username="otto").is_active


def test_someone_is_deactivated_and_comes_back():
    apply()
    assert apply(FILE.replace("[people.nora]", "[people.nora]\nactive = false")) == ["deactivate nora"]
    assert apply() == ["reactivate nora"]


def test_an_address_changes_only_where_the_file_says_one():
    apply()
    assert apply(FILE.replace("nora@example.org", "n@example.org")) == ["set the email of nora to n@example.org"]
    assert apply(FILE.replace('email = "nora@example.org"', "")) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[people.ana]\ngroups = ["nowhere"]', "line 1: ana is in group nowhere, which does not exist"),
        ('[groups.finance]\nmembers = ["nobody"]', "line 1: member nobody of finance does not exist"),
        ("[service_accounts.ana]", "line 1: ana exists and is a person"),
    ],
)
def test_names_that_lead_to_no_one_are_refused_with_their_line(text, words):
    with pytest.raises(BadPeopleFile, match=words):
        apply(text, dry_run=True)


def test_what_an_action_refuses_undoes_everything():
    with pytest.raises(Invalid):
        apply('[people.nora]\n[people."not a name"]\n')
    assert not User.objects.filter(username="nora").exists()
    assert not AuditEntry.objects.exists()
