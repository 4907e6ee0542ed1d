from __future__ import annotations

import argparse
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import AuditEntry, Run, RunFact
from wfdash.cli.retention import add_retention_commands

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def say(capsys):
    def run(*arguments: str):
        parser = argparse.ArgumentParser()
        add_retention_commands(parser.add_subparsers(), lambda options: None)
        options = parser.parse_args(["retention", *arguments])
        return options.run(options), *capsys.readouterr()

    return run


@pytest.fixture
def runs(settings, tmp_path) -> list[str]:
    """Return the ids of two old runs that go; a third one has the tag ``keep``."""
    settings.WFDASH_KEEP_RUNS, settings.WFDASH_ARCHIVE = {"*": 30, "ledger": None}, str(tmp_path)
    made = []
    for workflow in ("claims", "refund", "refund", "ledger"):
        run, ended = ids.new_run_id(), timezone.now() - timedelta(days=40)
        facts = {"phase": "failed", "created": ended, "updated": ended, "finished": ended}
        made.append(Run.objects.create(id=run, family=run, workflow=workflow, **facts))
    RunFact.objects.create(run=made[2], name="tag", text="keep", created=made[2].created)
    return [run.pk for run in made[:2]]


def test_what_would_go_is_said_and_then_removed_and_read_from_the_archive(say, runs, tmp_path):
    status, text, _ = say("show")
    assert (status, text.splitlines()[0]) == (0, "Ended runs are kept: 30 days, ledger: forever")
    assert [line.split()[:3] for line in text.splitlines()[2:4]] == [["claims", "30", "1"], ["refund", "30", "1"]]
    assert text.splitlines()[-1] == "1 older ones stay because of the tag keep"
    found = json.loads(say("show", "--json")[1])
    assert (found["keep"], found["runs"], found["kept"]) == ({"*": 30, "ledger": None}, 2, {"the tag keep": 1})
    assert Run.objects.count() == 4
    assert say("remove")[1] == "Removed 2 runs, 2 rows\n"
    assert Run.objects.count() == 2
    assert AuditEntry.objects.get().facts["runs"] == runs
    (file,) = map(str, tmp_path.iterdir())
    assert [line.split()[0] for line in say("read", file)[1].splitlines()] == ["RUN", *runs]
    assert json.loads(say("read", file, "--run", runs[0])[1])["content"]["run"]["workflow"] == "claims"
    assert say("read", file, "--run", "nowhere")[::2] == (1, "No file has the run nowhere\n")
    assert "No run would be removed" in say("show")[1]


def test_without_a_rule_the_commands_say_that_all_is_kept(say, runs, settings):
    settings.WFDASH_KEEP_RUNS = None
    assert say("show")[1] == "WFDASH_KEEP_RUNS is not set: ended runs are kept forever\n"
    assert say("remove")[::2] == (1, "WFDASH_KEEP_RUNS is not set: ended runs are kept forever\n")


def test_a_file_that_is_no_archive_is_refused_with_its_name(say, tmp_path):
    assert "nowhere.jsonl" in say("read", str(tmp_path / "nowhere.jsonl"))[2]
    (tmp_path / "x").write_text("[]\n")
    assert "x, line 1 is no archived run" in say("read", str(tmp_path / "x"))[2]
