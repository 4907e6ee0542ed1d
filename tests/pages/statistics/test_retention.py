"""The page about retention, and what the pages of a run and the API say of its removal."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import AuditEntry, Grant, Run, RunFact, TallyMark
from tests.people import WORKFLOW, make_run
from wfdash.actions.retention import RunRemover
from wfdash.installation.keep_rules import keep_rules
from wfdash.queries.runs import retention
from wfdash.queries.runs.retention import current_rules

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def rules(settings, everybody):
    settings.WFDASH_KEEP_RUNS = {"*": 90, "ledger": None, "scratch": 5}
    TallyMark.objects.create(pk=1, event=10**9)


def ended(days: float, workflow: str = WORKFLOW) -> Run:
    at = timezone.now() - timedelta(days=days)
    return make_run(workflow=workflow, phase="completed", finished=at)


def kept(run: Run) -> Run:
    RunFact.objects.create(run=run, name="tag", text="keep", created=run.created)
    return run


def page_of(client: Client, address: str = "/operations/retention/") -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return html.unescape(re.sub(r"<[^>]+>|\s+", " ", answer.content.decode()))


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_an_operator_sees_the_rules_what_is_due_and_what_keeps_the_others(as_):
    ended(91), ended(100), ended(6, "scratch"), ended(9_000, "ledger"), kept(ended(95)), ended(80)
    text = words(page_of(as_("otto")))
    assert "Due now 3 runs" in text
    assert "ledger forever own rule none" in text
    assert "scratch 5 days own rule 1, the first ended" in text
    assert re.search(r"90 days 2, the first ended", text)
    assert "the tag keep 1" in text
    assert "Last batch, all workflows none recently" in text
    assert "Archive off" in text


def test_the_last_batch_is_shown_and_the_folder_of_the_archive_to_admins_alone(as_, settings, tmp_path):
    settings.WFDASH_ARCHIVE = str(tmp_path)
    ended(91), ended(92)
    RunRemover().remove_next()
    text = words(page_of(as_("otto")))
    assert "2 runs Archive on: each run is written to it" in text
    assert str(tmp_path) not in text
    assert str(tmp_path) in page_of(as_("adam"))


def test_runs_that_no_worker_removes_are_a_warning_and_without_a_rule_all_are_kept(as_, settings):
    ended(90.02), ended(80)
    assert "none was removed" not in page_of(as_("otto"))
    ended(90.1)
    assert "none was removed" in page_of(as_("otto"))
    settings.WFDASH_HOLD = True
    assert "none was removed" not in page_of(as_("otto"))
    settings.WFDASH_KEEP_RUNS = None
    assert "All runs are kept" in page_of(as_("otto"))


def test_a_removal_that_goes_on_is_no_warning(as_):
    ended(91)
    RunRemover().remove_next()
    ended(92)
    assert "none was removed" not in page_of(as_("otto"))
    AuditEntry.objects.update(at=timezone.now() - timedelta(hours=2))
    assert "none was removed" in page_of(as_("otto"))


def test_an_operator_of_one_workflow_sees_nothing_of_the_others(as_):
    Grant.objects.filter(user__username="otto").update(workflow=WORKFLOW)
    ended(91), ended(6, "scratch"), kept(ended(7, "scratch"))
    text = words(page_of(as_("otto")))
    assert "Due now 1 run " in text
    assert "scratch" not in text
    assert "ledger" not in text
    assert "the tag keep" not in text


@pytest.mark.parametrize("verb", ["post", "put", "patch", "delete"])
def test_no_admin_changes_a_rule_which_the_environment_alone_has(as_, verb, settings, django_assert_num_queries):
    """Who could shorten one would remove what others approved."""
    client = as_("adam")
    given = {"WFDASH_KEEP_RUNS": "1", "default": 1, WORKFLOW: 1}
    for address in ("/operations/retention/", "/api/v1/retention/"):
        answer = getattr(client, verb)(address, given, content_type="application/json")
        assert answer.status_code in {404, 405}, address
    assert "retention" not in "".join(client.get("/api/v1/openapi.json").json()["paths"])
    with django_assert_num_queries(0):
        assert current_rules() == keep_rules(settings.WFDASH_KEEP_RUNS)
        settings.WFDASH_KEEP_RUNS = 7
        assert current_rules().days(WORKFLOW) == 7


def test_of_very_many_old_runs_the_page_looks_at_so_many(as_, monkeypatch):
    monkeypatch.setattr(retention, "RUNS_PER_STATEMENT", 2)
    ended(91), ended(92), ended(93)
    assert "Due now 2+ runs" in words(page_of(as_("otto")))


@pytest.mark.parametrize(
    ("days", "workflow", "said", "removal"),
    [
        (10, WORKFLOW, "Will be removed", {"days": 90, "kept_by": []}),
        (91, WORKFLOW, "About to be removed (rule: 90 days)", {"days": 90, "kept_by": []}),
        (10, "ledger", "Always kept, by the rule of its workflow", {"at": None, "days": None, "kept_by": []}),
    ],
)
def test_the_page_of_an_ended_run_and_the_api_say_when_it_goes(as_, days, workflow, said, removal):
    run = ended(days, workflow)
    assert said in page_of(as_("vera"), f"/runs/{run.pk}/")
    found = as_("vera").get(f"/api/v1/runs/{run.pk}").json()["removal"]
    assert {**removal, "at": found["at"]} == found
    assert (found["at"] is None) is ("at" in removal)


def test_what_keeps_an_old_run_is_said_on_its_page_and_by_the_api(as_):
    run = kept(ended(91))
    Run.objects.filter(pk=make_run().pk).update(family=run.family)
    Run.objects.filter(pk=run.pk).update(seq=0)
    page = page_of(as_("vera"), f"/runs/{run.pk}/")
    assert "Kept by the tag keep and an open run of the same family (rule: 90 days)" in page
    assert as_("vera").get(f"/api/v1/runs/{run.pk}").json()["removal"]["kept_by"] == ["tag", "family"]


def test_of_an_open_run_and_where_nothing_is_removed_nothing_is_said(as_, settings):
    assert as_("vera").get(f"/api/v1/runs/{make_run().pk}").json()["removal"] is None
    settings.WFDASH_KEEP_RUNS = None
    run = ended(91)
    assert as_("vera").get(f"/api/v1/runs/{run.pk}").json()["removal"] is None
    assert "Retention" not in page_of(as_("vera"), f"/runs/{run.pk}/")
