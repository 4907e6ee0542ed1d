"""Every exit status that docs/command-line.md names is that of a command which ends so."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests.cli.test_documented import STATUSES
from tests.pages.checkpoints.test_time_machine import otto, started
from wfdash import client
from wfdash.cli import commands
from wfdash.cli.output import Output
from wfdash.client import Client, Decision

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_every_status_of_the_table_is_that_of_a_command_without_a_traceback(otto, say, monkeypatch):
    User.objects.create_superuser("root")
    run = started()
    monkeypatch.setattr(client, "ask_sync", lambda *card, **terms: Decision(action="reject"))
    closed = ("--url", "http://127.0.0.1:9", "--token", "t")
    ends = {
        commands.OK: ("", "me"),
        commands.FAILED: ("no active person", "me", "--as", "no one"),
        commands.USAGE: ("amount: ", "runs", "start", "expense", "--set", "amount=many"),
        commands.NOT_FOUND: ("Run not found", "runs", "show", "nothing"),
        commands.REFUSED: ("", "people", "list", "--as", "otto"),
        commands.CONFLICT: ("", "runs", "retry", run.pk),
        commands.TIMED_OUT: ("has not ended", "runs", "wait", run.pk, "--timeout", "0"),
        commands.UNREACHABLE: ("cannot be reached", "me", *closed),
        commands.REJECTED: ("", "requests", "ask", "Ship it?"),
        commands.UNSUCCESSFUL: ("", "runs", "wait", run.pk),
        commands.INTERRUPTED: ("", "runs", "show", run.pk),
    }
    assert ends.keys() == STATUSES.keys()
    for expected, (said, *words) in ends.items():
        if expected == commands.UNSUCCESSFUL:
            say("runs", "cancel", run.pk)
        if expected == commands.INTERRUPTED:
            monkeypatch.setattr(Client, "run", interrupted)
        status, output, problem = say(*words)
        assert (status, said in problem) == (expected, True), (words, output, problem)
        assert "Traceback" not in problem


def interrupted(*given: object, **named: object) -> None:
    raise KeyboardInterrupt


def test_a_reader_that_has_enough_is_no_failure(otto, say, monkeypatch):
    def gone(*given: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Output, "data", gone)
    assert say("me", "--as", "otto", "--json") == (0, "", "")
    assert say("person", "list", "--json") == (0, "", "")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--url", "http://127.0.0.1:x", "--token", "t"), "Invalid port"),
        (("--url", "ftp://127.0.0.1", "--token", "t"), "http://HOST:PORT"),
        (("--url", "nonsense"), "http://HOST:PORT"),
        (("--url", "http://127.0.0.1", "--token", "ä"), "copy it again"),
    ],
)
def test_what_is_no_address_or_token_is_said_so(say, given, words):
    status, output, problem = say("me", *given)
    assert (status, output, words in problem) == (commands.FAILED, "", True)
