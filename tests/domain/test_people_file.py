from __future__ import annotations

import pytest

from wfdash.domain.people_file import BadPeopleFile, read_people, role_in

ROLES = ("viewer", "reviewer", "operator")
WHOLE = """\
# Who decides here
[people.ana]
email = "ana@example.org"
groups = ["finance"]
roles = ["reviewer", "operator:expense"]

[service_accounts."ci.bot"]
about = "Nightly import"

[groups.finance]
members = ["ben", "ana"]
roles = ["viewer"]
"""


def problems(text: str) -> list[str]:
    with pytest.raises(BadPeopleFile) as found:
        read_people(text, roles=ROLES)
    return [str(one) for one in found.value.problems]


def test_a_file_says_accounts_groups_members_and_roles():
    file = read_people(WHOLE, roles=ROLES)
    assert file.accounts["ana"].email == "ana@example.org"
    assert file.accounts["ci.bot"].service
    assert set(file.members) == {("finance", "ben"), ("finance", "ana")}
    assert [(one.holder, one.group, one.role, one.workflow) for one in file.roles] == [
        ("ana", False, "reviewer", "*"),
        ("ana", False, "operator", "expense"),
        ("finance", True, "viewer", "*"),
    ]
    assert (file.line("people", "ana"), file.line("service_accounts", "ci.bot")) == (2, 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[poeple.ana]\n", "line 1: unknown section poeple"),
        ("[people.ana]\n\nemial = 'x'\n", "line 3: unknown key emial of ana"),
        ("[people.ana]\nroles = ['boss']\n", "line 2: unknown role boss of ana"),
        ("[people.ana]\nemail = 3\n", "line 2: email of ana must be a text"),
        ("[people.ana]\ngroups = 'x'\n", "line 2: groups of ana must be a list of texts"),
        ("[people.ana]\nactive = 1\n", "line 2: active of ana must be true or false"),
        ("[groups.a]\nmembers = [1]\n", "line 2: members of a must be a list of texts"),
        ("people = 3\n", "line 1: people must be a table"),
        ("[people]\nana = 3\n", "line 2: people.ana must be a table"),
        ("[people]\nana = { emial = 'x' }\n", "line 2: unknown key emial of ana"),
        ("[people.ana]\n[service_accounts.ana]\n", "line 2: ana is a person already"),
        ("[people.ana\n", "line 1: not TOML"),
    ],
)
def test_what_does_not_fit_is_named_with_its_line(text, words):
    (found,) = problems(text)
    assert found.startswith(words)


def test_all_problems_are_named_at_once_in_their_order():
    found = problems("[people.ana]\nx = 1\n[groups.a]\ny = 2\n")
    assert [one.partition(":")[0] for one in found] == ["line 2", "line 4"]


def test_a_role_is_of_every_workflow_or_of_one_with_any_name():
    assert role_in("viewer") == ("viewer", "*")
    assert role_in("operator:pay:now") == ("operator", "pay:now")
