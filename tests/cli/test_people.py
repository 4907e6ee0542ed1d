from __future__ import annotations

import argparse
import json

import pytest

from checkpoints.models import AuditEntry
from tests import people
from wfdash.cli.people import add_people_commands

pytestmark = pytest.mark.django_db


@pytest.fixture
def say(capsys):
    people.make_people()

    def run(*arguments: str):
        parser = argparse.ArgumentParser()
        add_people_commands(parser.add_subparsers(), lambda options: None)
        options = parser.parse_args(list(arguments))
        return options.run(options), *capsys.readouterr()

    return run


def test_accounts_groups_and_roles_are_made_listed_and_taken_away(say):
    status, shown, _ = say("person", "add", "nora", "--group", "finance", "--role", "viewer:expense")
    assert (status, "no role" in shown) == (0, False)
    assert "wfdash grant add ROLE lea" in say("person", "add", "lea")[1]
    assert "token create robot" in say("person", "add", "robot", "--service", "--about", "Import")[1]
    rows = {row["name"]: row for row in json.loads(say("person", "list", "--json")[1])}
    assert rows["nora"]["roles"] == ["viewer:expense"]
    assert rows["robot"]["kind"] == "service account"
    assert say("group", "add", "night", "nora")[1] == "Group night made\n"
    assert say("group", "join", "night", "robot")[1] == "robot is now in night\n"
    assert say("group", "leave", "night", "nora")[0] == 0
    assert {"name": "night", "members": ["robot"]} in json.loads(say("group", "list", "--json")[1])
    assert say("grant", "add", "operator:expense", "--group", "night")[0] == 0
    assert "operator  expense" in say("grant", "list")[1]
    assert say("grant", "remove", "operator:expense", "--group", "night")[0] == 0
    assert say("grant", "remove", "viewer:expense", "nora")[0] == 0
    assert say("group", "remove", "night")[0] == 0
    assert say("person", "disable", "nora")[1] == "nora is deactivated\n"
    assert "nora" not in say("person", "list")[1]
    assert "nora" in say("person", "list", "--all")[1]
    assert say("person", "enable", "nora")[0] == 0
    assert {entry.actor for entry in AuditEntry.objects.all()} == {"command line"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("person", "add", "ana"), "already"),
        (("person", "add", "nora", "--role", "boss"), "Choose one of"),
        (("person", "disable", "nobody"), "Person not found"),
        (("person", "disable", "adam"), "no admin"),
        (("group", "add", "finance"), "already"),
        (("group", "remove", "nowhere"), "Group not found"),
        (("grant", "add", "operator", "nobody"), "No active user"),
        (("grant", "remove", "operator", "ana"), "by a grant of their own"),
        (("apply", "/nowhere.toml"), "No such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(say, arguments, words):
    status, _, problem = say(*arguments)
    assert status == 1
    assert words in problem


def test_a_file_is_applied_and_its_flaws_are_named_with_their_lines(say, tmp_path):
    file = tmp_path / "people.toml"
    file.write_text('[people.nora]\nroles = ["viewer"]\n')
    assert say("apply", str(file), "--dry-run")[1].endswith("2 changes (nothing was changed)\n")
    assert say("apply", str(file))[1].endswith("2 changes\n")
    assert say("apply", str(file))[1] == "0 changes\n"
    file.write_text("[people.nora]\nrole = 'viewer'\n")
    assert "line 2: unknown key role of nora" in say("apply", str(file))[2]
