from __future__ import annotations

import argparse
import json

import pytest

from checkpoints.models import AuditEntry
from tests import people
from wfdash.cli.tokens import add_token_commands
from wfdash.errors import BadToken
from wfdash.signin.tokens import use_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def say(capsys):
    people.make_people()

    def run(*arguments: str):
        parser = argparse.ArgumentParser()
        add_token_commands(parser.add_subparsers(), lambda options: None)
        options = parser.parse_args(["token", *arguments])
        return options.run(options), *capsys.readouterr()

    return run


def test_a_token_is_printed_alone_listed_without_its_secret_and_revoked(say):
    status, text, words = say("create", "ana", "ci", "--rights", "see,answer", "--workflow", "a", "--days", "7")
    assert status == 0
    assert text.count("\n") == 1
    assert "only now" in words
    token = use_token(text.strip())
    assert (token.owner.get_username(), token.rights, token.workflows) == ("ana", ["answer", "see"], ["a"])
    assert AuditEntry.objects.latest("n").actor == "command line"
    listed = say("list")[1]
    assert token.pk in listed
    assert text.strip().split("_", 2)[2] not in listed
    assert json.loads(say("list", "ana", "--json")[1])[0]["state"] == "usable"
    assert say("revoke", token.pk)[:2] == (0, "Revoked ci of ana\n")
    with pytest.raises(BadToken):
        use_token(text.strip())
    assert say("list")[1] == "No tokens\n"
    assert "revoked" in say("list", "--all")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "nobody", "ci"), "No active account named nobody"),
        (("create", "ana", "ci", "--rights", "fly"), "rights: Choose among"),
        (("create", "ana", "ci", "--days", "soon"), "or never"),
        (("revoke", "nothing"), "Token not found"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(say, arguments, words):
    status, _, problem = say(*arguments)
    assert status == 1
    assert words in problem
