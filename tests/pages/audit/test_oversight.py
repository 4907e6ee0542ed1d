"""The report of a workflow's oversight: what it counts, who may read it, and that a changed file is noticed."""

from __future__ import annotations

import json
import re

import pytest
from django.core.management import CommandError, call_command

from checkpoints.models import AuditEntry, Run
from tests import people
from tests.actions.requests.test_rules import rule_of

PATH = "/audit/oversight/?workflow=expense_batch&month=2026-01"


@pytest.fixture
def january(run, everybody):
    """Two decisions of a run that ended in January, and a run that asked no one."""
    people.answered(people.ask(run, "First?"), everybody["ana"])
    people.answered(people.ask(run, "Second?"), everybody["ana"], "reject")
    alone = people.make_run(phase="completed", finished=people.THEN)
    Run.objects.filter(pk=run.pk).update(phase="completed", finished=people.THEN)
    people.ask(alone, "Still open?", stuck="nobody", due=people.THEN)
    people.make_run(phase="completed", finished=people.THEN)
    rule_of(everybody["otto"], "proposal.amount:<5")
    return run


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.split("<main")[1]).split())


def test_it_counts_decisions_runs_that_asked_no_one_and_what_no_one_can_answer(january, as_):
    page = words(as_("otto").get(PATH).content.decode())
    assert "Oversight of" in page
    assert "2 decisions" in page
    assert "Approved 1" in page
    assert "Rejected 1" in page
    assert "Runs that ended without asking a person 1 of 3" in page
    assert "Open now and no one can answer 1 Open now and overdue 1" in page
    assert "adam, ana, ben, otto" in page
    assert "complian" not in page.lower()
    # A rule that was made after the month has no part in it.
    assert "Rule r1" not in page
    assert "Rule r1" in words(as_("otto").get("/audit/oversight/?workflow=expense_batch").content.decode())


@pytest.mark.parametrize(
    ("who", "path", "status"),
    [
        ("ana", PATH, 403),
        ("otto", PATH.replace("2026-01", "January"), 422),
        ("otto", PATH.replace("2026-01", "2026-13"), 422),
        ("otto", "/audit/oversight/?workflow=unknown", 200),
        ("otto", "/audit/oversight/", 200),
    ],
)
def test_operators_alone_read_it_and_a_wrong_month_is_named(january, as_, who, path, status):
    answer = as_(who).get(path)
    assert answer.status_code == status
    if status == 422:
        assert "2026-11" in answer.content.decode()


def test_the_file_is_signed_recorded_and_a_changed_one_is_noticed(january, as_, tmp_path, capsys):
    answer = as_("otto").get(f"{PATH}&kind=json")
    assert "oversight-2026-01.json" in answer["Content-Disposition"]
    report = json.loads(answer.content)
    assert (report["format"], report["decisions"]) == ("wfdash-oversight/1", {"approved": 1, "rejected": 1})
    assert AuditEntry.objects.get(verb="export").actor == "otto"
    file = tmp_path / "report.json"
    file.write_bytes(answer.content)
    call_command("verify", str(file))
    assert "The report holds" in capsys.readouterr().out
    file.write_text(json.dumps(report | {"unseen": 0}))
    with pytest.raises(CommandError, match="The report"):
        call_command("verify", str(file))
