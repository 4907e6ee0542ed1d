"""Commands on a data directory: in this process, through the same client and API as on a server."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import AuditEntry, Checkpoint, Rule, Run
from tests.pages.checkpoints.test_time_machine import otto, started
from wfdash.cli import commands

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_runs_and_checkpoints_are_listed_and_one_is_restored(otto, say, data):
    run = started()
    status, text, _ = say("runs", "list", "workflow:expense", "--as", "otto")
    assert status == 0
    assert text.startswith("ID")
    assert run.pk in text
    assert [row["id"] for row in data("runs", "list", "--as", "otto")] == [run.pk]
    rows = data("checkpoints", "list", run.pk, "--as", "otto")
    assert [row["n"] for row in rows] == sorted((row["n"] for row in rows), reverse=True)
    assert rows[-1]["id"] in say("checkpoints", "list", run.pk, "--as", "otto")[1]
    shown = data("checkpoints", "preview", run.pk, "1", "--as", "otto")
    status, text, _ = say("checkpoints", "restore", run.pk, "1", "--seen", shown["mark"], "--as", "otto")
    assert status == 0
    assert f"(new checkpoint {rows[0]['n'] + 1}," in text
    assert Checkpoint.objects.filter(run=run).latest("n").parent == rows[-1]["id"]
    entry = AuditEntry.objects.latest("n")
    assert (entry.verb, entry.actor) == ("restore", "otto")


def test_a_run_is_looked_at_compared_forked_and_cancelled(otto, say, data):
    run = started()
    User.objects.create_superuser("root")
    assert data("runs", "show", run.pk)["id"] == run.pk
    assert "status:" in say("runs", "show", run.pk)[1]
    assert data("runs", "events", run.pk, "--limit", "2")[0]["seq"] == 1
    assert data("checkpoints", "compare", run.pk, "1", "1")["patch"] == []
    assert say("checkpoints", "compare", run.pk, "1", "1")[1] == "The same\n"
    forked = data("checkpoints", "fork", run.pk, "1")["run"]
    assert Run.objects.filter(pk=forked).exists()
    assert say("runs", "cancel", forked)[:2] == (0, "Cancelled\n")
    assert say("runs", "cancel", forked)[0] == commands.CONFLICT
    assert data("runs", "delete", forked)["deleted"] is True


def test_a_request_is_read_snoozed_answered_and_commented_on(otto, say, data):
    run = started()
    [request] = data("requests", "list", f"run:{run.pk}", "--as", "otto")
    assert request["subject"] in say("requests", "show", request["id"], "--as", "otto")[1]
    assert say("requests", "comment", request["id"], "Looks fine", "--as", "otto")[0] == 0
    assert "Looks fine" in say("requests", "comments", request["id"], "--as", "otto")[1]
    remind, by = ("requests", "remind", request["id"]), ("--as", "otto")
    assert say(*remind, "2h", *by)[1].startswith("Snoozed until 20")
    assert [one["id"] for one in data("requests", "list", "--tab", "snoozed", "--as", "otto")] == [request["id"]]
    assert say(*remind, "2099-12-01T09:00", *by)[0] == say(*remind, "soonish", *by)[0] == commands.USAGE
    assert say(*remind, *by)[1] == "Back in your queue\n"
    status, _, problem = say("requests", "answer", request["id"], "--as", "otto")
    assert status == commands.USAGE
    assert "Give an answer: text, JSON" in problem
    assert say("requests", "answer", request["id"], "no such action", "--as", "otto")[0] == commands.USAGE
    assert say("requests", "answer", request["id"], "5", "--as", "otto")[:2] == (0, "Answered\n")
    status, _, problem = say("requests", "answer", request["id"], "6", "--as", "otto")
    assert status == commands.CONFLICT
    assert "Already answered by otto" in problem


def test_what_cannot_be_done_is_said_in_words_and_by_the_exit_status(otto, say):
    run = started()
    User.objects.create_user("guest")
    for arguments, expected, words in (
        (("runs", "list", "is:nonsense", "--as", "otto"), commands.USAGE, "Invalid value"),
        (("checkpoints", "list", "nothing", "--as", "otto"), commands.NOT_FOUND, "Run not found"),
        (("checkpoints", "restore", run.pk, "99", "--as", "otto"), commands.NOT_FOUND, "Checkpoint not found"),
        (("runs", "show", run.pk, "--as", "guest"), commands.NOT_FOUND, "do not have access"),
        (("runs", "follow-up", run.pk, "And then?", "--as", "otto"), commands.CONFLICT, "take no follow-up"),
        (("runs", "start", "expense", "--input", "{", "--as", "otto"), commands.USAGE, "is no JSON"),
        (
            ("runs", "start", "expense", "--callback", "https://a.example", "--as", "otto"),
            commands.USAGE,
            "WFDASH_CALLBACK_SECRET",
        ),
        (("runs", "start", "expense", "--input", "@missing.json"), commands.USAGE, "cannot be read"),
        (("runs", "bulk", "cancel", "--as", "otto"), commands.USAGE, "--filter"),
        (("runs", "wait", run.pk, "--timeout", "soon"), commands.USAGE, "no duration"),
        (("runs", "list", "--limit", "0"), commands.USAGE, "not a number"),
    ):
        status, _, problem = say(*arguments)
        assert (status, words in problem) == (expected, True), (arguments, problem)
        assert "Traceback" not in problem


def test_many_runs_are_acted_on_after_a_preview(otto, say, data):
    run = started()
    assert data("runs", "bulk", "cancel", run.pk, "--dry-run", "--as", "otto")["acts"] == 1
    status, _, problem = say("runs", "bulk", "cancel", run.pk, "--as", "otto")
    assert (status, "Nothing was changed" in problem) == (commands.FAILED, True)
    assert "1 of 1 runs" in say("runs", "bulk", "cancel", run.pk, "--yes", "--as", "otto")[1]
    assert data("runs", "show", run.pk, "--as", "otto")["status"] == "cancelled"


def test_text_of_workflows_cannot_steer_a_terminal(otto, say):
    Run.objects.filter(pk=started().pk).update(title="\x1b[2J\x1b]0;owned\x07 \u202etitle")
    _, text, _ = say("runs", "list", "--as", "otto")
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_a_rule_is_suspended_from_the_shell_also_where_no_server_runs(otto, say, data):
    now = timezone.now()
    times = dict.fromkeys(("since", "created", "pinned", "expires"), now)
    facts = {"workflow": "expense", "condition": "proposal.amount:<5", "quota": 1, "days": 1, "share": 0.05}
    Rule.objects.create(pk=7, owner=User.objects.get(username="otto"), state="on", **times, **facts)
    User.objects.create_user("stranger")
    assert [row["name"] for row in data("rules", "list", "--as", "otto")] == ["rule r7"]
    assert data("rules", "list", "--as", "stranger") == []
    assert say("rules", "suspend", "r7", "--as", "stranger")[0] == commands.NOT_FOUND
    assert say("rules", "suspend", "r7", "--reason", "Odd refunds", "--as", "otto")[:2] == (0, "Suspended r7\n")
    assert (Rule.objects.get().state, Rule.objects.get().problem) == ("suspended", "Odd refunds")
    assert say("rules", "suspend", "7", "--as", "otto")[0] == commands.CONFLICT
    assert say("rules", "suspend", "many", "--as", "otto")[0] != 0
    assert AuditEntry.objects.latest("n").verb == "suspend rule"


def test_the_first_administrator_acts_where_no_one_is_named(otto, data, say):
    assert "no administrator" in say("me")[2]
    User.objects.create_superuser("first")
    User.objects.create_superuser("second")
    assert data("me")["name"] == "first"
    assert data("me", "--as", "otto")["name"] == "otto"


def test_a_command_on_data_needs_neither_token_nor_session_and_leaves_none(otto, say):
    from django.contrib.sessions.models import Session

    before = set(Session.objects.values_list("pk", flat=True))
    assert say("runs", "list", "--as", "otto")[0] == 0
    assert set(Session.objects.values_list("pk", flat=True)) == before
