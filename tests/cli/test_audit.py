"""``wfdash audit`` and ``wfdash people`` on a data directory."""

from __future__ import annotations

import json
import stat
import sys
from importlib import import_module

import pytest
from django.contrib.auth.models import Group, User

from tests.pages.checkpoints.test_time_machine import otto, started
from wfdash import cli
from wfdash.cli import commands
from wfdash.client import Client, NotFound, Outdated, Unreachable

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def root(otto):
    return User.objects.create_superuser("root")


def test_the_audit_log_is_listed_and_an_entry_shown(root, say, data, monkeypatch, tmp_path):
    run = started()
    assert say("runs", "cancel", run.pk)[0] == 0
    [entry] = data("audit", "list", "verb:cancel", "actor:root")
    assert (entry["run"], entry["actor"]) == (run.pk, "root")
    assert say("audit", "list", "verb:cancel")[1].startswith("N  ")
    assert data("audit", "show", str(entry["n"]))["hash"] == entry["hash"]
    newest = data("audit", "head")
    assert say("audit", "head")[1] == f"{newest['n']}:{newest['hash']}\n"
    file = tmp_path / "anchors.jsonl"
    for _ in range(2):
        assert say("audit", "anchor", str(file))[0] == 0
    anchors = [json.loads(line) for line in file.read_text().splitlines()]
    assert [anchor["hash"] for anchor in anchors] == [newest["hash"]] * 2
    assert all(anchor["signature"] for anchor in anchors)
    assert say("audit", "head", "--as", "otto")[0] == commands.REFUSED
    assert say("audit", "show", "999")[0] == commands.NOT_FOUND
    status, _, problem = say("audit", "list", "after:nonsense")
    assert (status, "after" in problem) == (commands.USAGE, True)
    whole = data("audit", "list", "before:2099-01-01")
    monkeypatch.setattr(import_module("wfdash.queries.audit"), "MAX_SCANNED_ENTRIES", 0)
    assert data("audit", "list", "before:2099-01-01") == whole != []


def test_an_export_is_a_new_file_of_its_owner_that_verify_accepts(root, say, data, tmp_path):
    say("runs", "cancel", started().pk)
    file = tmp_path / "audit.json"
    assert data("audit", "export", str(file), "verb:cancel") == {"file": str(file), "bytes": file.stat().st_size}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry["verb"] for entry in json.loads(file.read_text())["entries"]] == ["cancel"]
    status, _, problem = say("audit", "export", str(file))
    assert (status, "never replaces a file" in problem) == (commands.USAGE, True)
    assert say("verify", str(file))[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["audit.json"]


def test_an_export_goes_to_standard_output(root, here, capfdbinary):
    assert cli.main(["runs", "cancel", started().pk]) == 0
    capfdbinary.readouterr()
    assert cli.main(["audit", "export", "-"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["entries"]


def test_a_broken_export_leaves_no_file(root, say, tmp_path, monkeypatch):
    def broken(client, filter=""):  # noqa: A002
        yield b'{"entries": ['
        raise Unreachable("the connection broke")

    monkeypatch.setattr(Client, "export_audit", broken)
    status, _, problem = say("audit", "export", str(tmp_path / "audit.json"))
    assert (status, "the connection broke" in problem) == (commands.UNREACHABLE, True)
    assert list(tmp_path.iterdir()) == []
    status, _, problem = say("audit", "export", str(tmp_path / "nowhere" / "audit.json"))
    assert (status, "cannot be written: No such file" in problem) == (commands.USAGE, True)


def test_people_groups_and_rights_are_listed(root, say, data):
    Group.objects.create(name="legal").user_set.add(User.objects.get(username="otto"))
    assert {row["name"] for row in data("people", "list")} > {"root", "otto"}
    assert "operator" in say("people", "list", "otto")[1]
    assert len(say("people", "list", "--limit", "1")[1].splitlines()) == 2
    assert data("people", "show", "otto")["groups"] == ["legal"]
    assert "legal" in say("people", "show", "otto")[1]
    assert data("people", "groups")[0]["members"] == 1
    assert data("people", "group", "legal")["people"] == ["otto"]
    assert "otto" in say("people", "access", "expense")[1]
    assert say("people", "list", "--as", "otto")[0] == commands.REFUSED


def test_an_account_is_deactivated_and_comes_back(root, say, data):
    assert say("people", "deactivate", "otto")[1] == "otto is deactivated\n"
    assert [row["name"] for row in data("people", "list", "--show", "off")] == ["otto"]
    assert say("people", "deactivate", "otto")[0] == commands.CONFLICT
    assert data("people", "reactivate", "otto")["active"] is True
    assert say("people", "deactivate", "no one")[0] == commands.NOT_FOUND


def test_a_person_who_waits_at_a_terminal_sees_how_far_the_run_is(root, say, monkeypatch):
    run = started()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    status, _, problem = say("runs", "wait", run.pk, "--timeout", "0.2")
    assert status == commands.TIMED_OUT
    assert "expense · waiting" in problem


def test_statistics_and_what_needs_attention_are_shown(root, say, data):
    run = started()
    assert "1 requests wait for people" in say("statistics")[1]
    assert data("statistics", "--days", "1", "--workflow", "expense")["hourly"] is True
    assert say("statistics", "--days", "31")[0] == commands.USAGE
    assert say("operations")[0] == commands.OK
    assert data("operations")["failed"] == 0
    assert say("runs", "cancel", run.pk)[0] == 0
    assert say("operations", "--as", "otto")[0] == commands.OK


def test_the_parts_of_a_run_are_printed(root, say, data):
    run = started()
    assert data("runs", "steps", run.pk)[0]["step"]
    assert say("runs", "steps", run.pk)[1].startswith("STEP")
    assert data("runs", "logs", run.pk, "--level", "ERROR") == []
    assert json.loads(say("runs", "values", run.pk, "input")[1]) == data("runs", "values", run.pk, "input")["value"]
    assert say("runs", "values", run.pk, "output")[0] == commands.CONFLICT
    assert data("runs", "tag", run.pk, "--add", "urgent")["tags"] == ["urgent"]
    assert say("runs", "tag", run.pk)[1] == "urgent\n"
    assert "not changed" in say("runs", "migrate", run.pk, "--dry-run")[1]


def test_a_schedule_is_changed_as_it_was_read(root, say, data):
    made = data("schedules", "create", "expense", "nightly", "0 3 * * *", "--input", '{"amount": 5}')
    assert data("schedules", "change", made["id"], "--cron", "0 4 * * *")["cron"] == "0 4 * * *"
    assert data("schedules", "show", made["id"])["message"]["amount"] == 5
    status, _, problem = say("schedules", "change", made["id"])
    assert (status, "--cron" in problem) == (commands.USAGE, True)


def test_a_draft_and_a_schedule_replace_only_what_was_read(root, here):
    from wfdash.cli.connection import LocalTransport

    run = started()
    with Client("http://wfdash.local", "", transport=LocalTransport(root), patience=0.0) as client:
        [request] = client.requests(f"run:{run.pk}").items
        assert client.draft(request.id) is None
        client.save_draft(request.id, {"value": ["1"]})
        first = client.draft(request.id)
        client.save_draft(request.id, {"value": ["2"]}, instead_of=first)
        with pytest.raises(Outdated):
            client.save_draft(request.id, {"value": ["3"]}, instead_of=first)
        with pytest.raises(Outdated):
            client.drop_draft(request.id, instead_of=first)
        client.drop_draft(request.id, instead_of=client.draft(request.id))
        assert client.draft(request.id) is None
        with pytest.raises(NotFound):
            client.draft("nothing")
        made = client.create_schedule("expense", "nightly", "0 3 * * *", message={"amount": 5})
        schedule = client.schedule(made.id)
        assert client.change_schedule(schedule, cron="0 4 * * *").cron == "0 4 * * *"
        with pytest.raises(Outdated):
            client.change_schedule(schedule, name="other")
