from __future__ import annotations

import argparse
import json

import pytest
from django.contrib.auth.models import User

from checkpoints.models import AuditEntry, Checkpoint
from tests.pages.checkpoints.test_time_machine import otto, started
from wfdash.cli.runs import add_run_commands

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def say(capsys):
    """Give what runs a command and returns its status, output and errors."""

    def run(*arguments: str):
        parser = argparse.ArgumentParser()
        add_run_commands(parser.add_subparsers(), lambda options: None)
        options = parser.parse_args(list(arguments))
        status = options.run(options)
        return status, *capsys.readouterr()

    return run


def test_runs_and_checkpoints_are_listed_and_one_is_restored(otto, say):
    run = started()
    status, text, _ = say("runs", "workflow:expense", "--as", "otto")
    assert status == 0
    assert text.startswith("ID")
    assert run.pk in text
    assert [row["id"] for row in json.loads(say("runs", "--as", "otto", "--json")[1])] == [run.pk]
    rows = json.loads(say("checkpoints", run.pk, "--as", "otto", "--json")[1])
    assert [row["n"] for row in rows] == sorted((row["n"] for row in rows), reverse=True)
    assert rows[-1]["id"] in say("checkpoints", run.pk, "--as", "otto")[1]
    status, text, _ = say("restore", run.pk, "1", "--as", "otto")
    assert status == 0
    assert f"(new checkpoint {rows[0]['n'] + 1}," in text
    assert Checkpoint.objects.filter(run=run).latest("n").parent == rows[-1]["id"]
    entry = AuditEntry.objects.latest("n")
    assert (entry.verb, entry.actor) == ("restore", "otto")


def test_what_cannot_be_done_is_said_in_words(otto, say):
    run = started()
    User.objects.create_superuser("root")
    assert say("runs")[0] == 0
    User.objects.create_superuser("eve")
    assert "--as USER" in say("runs")[2]
    for arguments, words in (
        (("runs", "--as", "nobody"), "no active person"),
        (("checkpoints", "nothing", "--as", "otto"), "Run not found"),
        (("restore", run.pk, "99", "--as", "otto"), "Checkpoint not found"),
    ):
        status, _, problem = say(*arguments)
        assert status == 1
        assert words in problem
