from __future__ import annotations

import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Run, Tally, WorkflowVersion
from tests import people
from tests.pages.paper import STEPS, expenses
from wfdash.engines import catalog
from wfdash.queries.workflows import read_versions, read_workflows

ADDRESS = "/workflows/expense_batch/"


def test_the_catalogue_is_a_list_with_the_runs_of_a_day_and_at_an_address_the_graphs(run, as_):
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    for measure, count, ago in (("started", 7, 2), ("failed", 2, 2), ("started", 1_000, 25)):
        Tally.objects.create(hour=hour - timedelta(hours=ago), measure=measure, workflow="expense_batch", count=count)
    client = as_("otto")
    page = client.get("/workflows/").content.decode()
    assert "Last 24 hours: 7 started, 2 failed" in page
    assert f"{hour - timedelta(hours=2):%H:%M}: 7 started, 2 failed</title>" in page
    assert 'href="/workflows/expense_batch/#start-title"' in page
    assert "graph-picture" not in page
    drawn = client.get("/workflows/?graphs=1&q=claims").content.decode()
    assert "graph-picture" in drawn
    assert '<input type="hidden" name="graphs" value="1">' in drawn
    assert "All runs" in drawn
    (row,) = client.get("/api/v1/workflows?q=workflow:expense_batch").json()["items"]
    assert row["hours"] == {"started": [0] * 21 + [7, 0, 0], "failed": [0] * 21 + [2, 0, 0]}
    assert "#start-title" not in as_("vera").get("/workflows/").content.decode()


def test_a_module_that_fails_to_load_is_shown_to_operators_alone(settings, as_):
    settings.WFDASH_APPS = ["tests.pages.served", "tests.pages.no_such_module"]
    catalog.load.cache_clear()
    page = as_("otto").get("/workflows/").content.decode()
    assert "tests.pages.no_such_module did not load" in page
    assert "workflow-trace" in page
    assert "Expense batch" in page
    assert "workflow-trace" not in as_("vera").get("/workflows/").content.decode()


def test_starting_a_run_opens_it(as_):
    answer = as_("otto").post(ADDRESS, {"claims": "ana,taxi,30", "limit": "50", "_key": "once"})
    made = Run.objects.get()
    assert answer.url == f"/runs/{made.pk}/"
    assert made.input == {"claims": "ana,taxi,30", "limit": 50}
    assert made.created_by.username == "otto"


def test_a_double_click_starts_one_run(as_):
    client = as_("otto")
    answers = [client.post(ADDRESS, {"claims": "x", "limit": "5", "_key": "same"}).url for _ in range(2)]
    assert answers[0] == answers[1]
    assert Run.objects.count() == 1


def test_invalid_input_is_refused_at_its_field_and_kept(as_):
    answer = as_("otto").post(ADDRESS, {"claims": "typed with care", "limit": "99999"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "typed with care" in page
    assert "99999" in page
    assert 'href="#field-limit"' in page
    assert not Run.objects.exists()


@pytest.mark.parametrize(("name", "status"), [("ana", 403), ("vera", 403), ("sam", 404)])
def test_starting_takes_the_right(name, status, as_):
    assert as_(name).post(ADDRESS, {"claims": "x"}).status_code == status
    assert not Run.objects.exists()


def test_the_example_fills_the_form(as_):
    client = as_("otto")
    assert "ana,taxi,30" in client.get(f"{ADDRESS}?example=1").content.decode()
    for strange in ("2", "0", "x", "-1", "9" * 30):
        assert client.get(f"{ADDRESS}?example={strange}").status_code == 200


def test_a_filter_is_an_address(run, as_):
    client = as_("vera")
    assert "Expense batch" in client.get("/workflows/?q=claims+show:open").content.decode()
    assert "No workflows match" in client.get("/workflows/?q=show:failed").content.decode()
    assert "No workflows match" in client.get("/workflows/?q=something+else").content.decode()
    for text in ("-show:failed", "show:failed,open -lunch", "step:rev* workflow:expense_batch", '"expense batch"'):
        assert "Expense batch" in client.get("/workflows/", {"q": text}).content.decode()
    for text in ("-show:open,failed", "-claims", "-workflow:exp*", "show:open show:failed"):
        assert 'id="workflow-expense_batch"' not in client.get("/workflows/", {"q": text}).content.decode()
    assert "Invalid value &quot;odd&quot; for show" in client.get("/workflows/?q=show:odd").content.decode()


def test_without_workflows_an_author_is_told_the_first_steps(settings, as_):
    settings.WFDASH_APPS = []
    catalog.load.cache_clear()
    assert "wfdash up --reload hello.py" in as_("otto").get("/workflows/").content.decode()
    assert "Ask an admin for a role" in as_("sam").get("/workflows/").content.decode()


def test_a_file_that_fails_to_load_is_shown_with_the_line(settings, as_, tmp_path):
    (tmp_path / "broken.py").write_text("from __future__ import annotations\n\nraise ValueError('no')\n")
    (tmp_path / "odd.py").write_text("def (:\n")
    settings.WFDASH_WORKFLOWS = [str(tmp_path / "broken.py"), str(tmp_path / "odd.py")]
    catalog.load.cache_clear()
    page = as_("otto").get("/workflows/").content.decode()
    assert f"{tmp_path}/broken.py:3" in page
    assert f"{tmp_path}/odd.py:1" in page


def test_versions_tell_what_changed_and_lead_to_their_runs(run, as_):
    older = expenses.description.model_copy(update={"version": "v0", "steps": STEPS[:3], "edges": ()})
    old = WorkflowVersion.objects.create(
        workflow="expense_batch", version="v0", description=older.model_dump(mode="json")
    )
    WorkflowVersion.objects.filter(pk=old.pk).update(created="2025-01-01T00:00Z")
    people.make_run(version="v0", phase="completed")
    page = as_("vera").get(ADDRESS).content.decode()
    assert "added: report" in page
    assert "/runs/?q=workflow:expense_batch+version:v0" in page
    rows = read_versions(people.viewer("vera"), "expense_batch")
    assert [(row.version, row.runs, row.current) for row in rows] == [("v1", 1, True), ("v0", 1, False)]


def test_a_graph_that_was_never_run_is_a_version_too(as_):
    assert "no runs yet" in as_("vera").get(ADDRESS).content.decode()


def test_counts_by_state_lead_to_the_runs_and_stop_where_no_one_counts_on(run, as_, monkeypatch):
    for phase in ("completed", "completed", "failed"):
        people.make_run(phase=phase)
    page = as_("vera").get(ADDRESS).content.decode()
    assert "2 completed" in page
    assert "1 waiting" in page
    assert "status:queued%2Crunning" not in page
    monkeypatch.setattr(sys.modules[read_workflows.__module__], "MAX_COUNTED_RUNS", 1)
    monkeypatch.setattr("wfdash.web.pages.workflows.MAX_COUNTED_RUNS", 1)
    people.make_run(phase="failed")
    page = as_("vera").get(ADDRESS).content.decode()
    assert "1+ failed" in page
    rows = read_versions(people.viewer("vera"), "expense_batch")
    assert [(row.runs, row.more) for row in rows] == [(1, True)]


def test_the_form_is_filled_with_what_this_person_gave_last(as_):
    client = as_("otto")
    assert "Use last input" not in client.get(ADDRESS).content.decode()
    client.post(ADDRESS, {"claims": "typed once", "limit": "7"})
    assert "Use last input" in client.get(ADDRESS).content.decode()
    page = client.get(f"{ADDRESS}?last=1").content.decode()
    assert ">typed once</textarea>" in page.replace("\n", "")
    assert ">typed once</textarea>" not in as_("adam").get(f"{ADDRESS}?last=1").content.decode()


def test_the_form_is_filled_with_another_run_s_input_for_those_who_may_inspect_it(run, as_):
    page = as_("adam").get(f"{ADDRESS}?from={run.pk}").content.decode()
    assert 'name="claims"' in page
    assert ">x</textarea>" in page.replace("\n", "")
    assert as_("ana").get(f"{ADDRESS}?from={run.pk}").status_code == 404
    other = people.make_run(workflow="other")
    assert as_("adam").get(f"{ADDRESS}?from={other.pk}").status_code == 404


def test_where_a_workflow_is_defined_is_for_operators(as_):
    assert ">tests/pages/served/workflows.py<" in as_("otto").get(ADDRESS).content.decode()
    assert "served/workflows.py" not in as_("ana").get(ADDRESS).content.decode()


def test_the_catalogue_costs_a_constant_number_of_queries(run, as_, django_assert_max_num_queries):
    client = as_("vera")
    for n in range(5):
        people.make_run(workflow=f"w{n}")
    with django_assert_max_num_queries(20):
        client.get("/workflows/")
