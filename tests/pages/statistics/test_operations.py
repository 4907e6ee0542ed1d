"""The operator's home: what it counts, whom it is for, and that every number leads to what it counted."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import AuditEntry, Claim, Grant, HumanRequest, KnownError, Run, RunFact, Schedule, Tally
from tests import people
from tests.people import ask, happen, make_run, step
from wfdash.actions.runs.search_index import index_failures
from wfdash.queries.statistics import figures
from wfdash.queries.statistics.durations import Measure, bucket_of
from wfdash.queries.statistics.figures import Operations, read_operations
from wfdash.worker.serving import start_heartbeat

NOW = timedelta()
LATER = timezone.now() + timedelta(days=2)


def fail(error: str = "TimeoutError", ago: timedelta = NOW, **facts: Any) -> Run:
    """Make a run that failed some time ago, as the search index knows it."""
    at = timezone.now() - ago
    given = {"phase": "failed", "finished": at, "error": {"type": error, "message": "no answer"} if error else None}
    run = make_run(**(given | facts))
    kinds = {error.lower(), error.rpartition(".")[2].lower()} if error else set()
    for text in kinds:
        RunFact.objects.create(run=run, name="error", text=text, created=run.created)
    return run


def claimed(run: Run, worker: str = "here:1", alive: bool = True) -> Run:
    """Give a run to a worker."""
    expires = timezone.now() + timedelta(minutes=1 if alive else -1)
    Claim.objects.create(run=run, token=run.pk, worker=worker, epoch=run.epoch, expires=expires)
    return run


def page_of(client: Client, query: str = "") -> str:
    answer = client.get(f"/operations/{query}")
    assert answer.status_code == 200
    return html.unescape(re.sub(r"\s+", " ", answer.content.decode()))


def found(name: str = "otto", **kwargs: Any) -> Operations:
    return read_operations(people.viewer(name), **kwargs)


def test_failures_are_grouped_by_workflow_and_class_of_error(everybody):
    for error in ["lib.TimeoutError"] * 3 + ["ValueError"]:
        fail(error)
    fail("TimeoutError", workflow="publish_article")
    groups = [(group.workflow, group.error, group.count) for group in found().groups]
    mine = [(people.WORKFLOW, "timeouterror", 3), (people.WORKFLOW, "valueerror", 1)]
    assert groups == [*mine, ("publish_article", "timeouterror", 1)]


def test_a_failure_whose_class_is_not_known_is_counted_too(everybody, as_):
    fail("")
    assert [(group.error, group.count) for group in found().groups] == [("", 1)]
    page = page_of(as_("otto"))
    assert "Unknown error in" in page
    assert "Retry it" not in page


def test_a_run_that_was_retried_or_failed_long_ago_does_not_count(everybody):
    fail(phase="ready", finished=None)
    fail(ago=timedelta(days=3))
    assert found().failed == 0
    assert found(within=timedelta(days=7)).failed == 1


def test_groups_are_those_of_the_latest_failures_however_many_there_are(everybody, monkeypatch):
    monkeypatch.setattr(figures, "MOST_FAILED", 3)
    for minutes in range(5):
        fail("OldError" if minutes > 2 else "NewError", ago=timedelta(minutes=minutes))
    assert (found().failed, [group.error for group in found().groups]) == (3, ["newerror"])


def test_every_number_leads_to_a_list_with_as_many_runs(everybody, as_):
    for _ in range(2):
        fail("lib.TimeoutError")
    fail("ValueError")
    page = page_of(as_("otto"))
    (address,) = re.findall(r'href="(/runs/\?[^"]+timeouterror[^"]*)"', page)
    assert as_("otto").get(address).content.decode().count("data-row=") == 2
    assert "TimeoutError in Expense batch" in page
    assert re.search(r'aria-label="2 in the last 24 hours, most [12]"', page)
    assert "3</strong> failed" in page
    assert "None:" in page
    assert "no answer" in page


def test_all_runs_of_a_group_are_retried_from_its_preview(everybody, as_):
    runs = [fail("lib.TimeoutError") for _ in range(2)]
    fail("ValueError")
    (address,) = re.findall(r'href="(/runs/bulk/[^"]+timeouterror[^"]*)"', page_of(as_("otto")))
    preview = as_("otto").get(address).content.decode()
    assert "Retry 2 runs" in preview
    assert all(run.pk in preview for run in runs)


def test_a_silent_run_is_stuck_only_beyond_what_its_steps_usually_take(everybody, as_):
    long_ago = timezone.now() - timedelta(minutes=40)
    runs = [claimed(make_run(phase="ready", workflow=name)) for name in ("slow", "quick", "talks")]
    for run in runs:
        happen(run, *step("work", "started"))
        run.events.update(at=long_ago)
        Run.objects.filter(pk=run.pk).update(updated=long_ago)
    happen(runs[2], ("progress", "work", {"fraction": 0.5}))
    runs[2].events.filter(kind="progress").update(at=timezone.now())
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    for name, seconds in (("slow", 1200.0), ("quick", 1.0)):
        Tally.objects.create(
            measure=Measure.STEP, hour=hour, workflow=name, step="work", bucket=bucket_of(seconds), count=9, total=9
        )
    assert [one.run.workflow for one in found().stuck] == ["quick"]
    heads = [as_("otto").get(f"/runs/{run.pk}/?fragment=head").content.decode() for run in runs]
    assert ["No sign of life for" in head for head in heads] == [False, True, False]
    assert "Pause it now and resume it" in heads[1]


def test_runs_that_no_worker_takes_are_said_loudly(everybody, as_):
    make_run(phase="ready")
    page = page_of(as_("otto"))
    assert "Runs are waiting for a worker" in page
    lead = re.search(r'No running worker serves <a href="([^"]+)">Expense batch \(1\)</a>\. Start one that does', page)
    assert lead
    assert "is%3Aunserved" in lead[1]
    start_heartbeat("host-1", {people.WORKFLOW: "v1"})
    page = page_of(as_("otto"))
    assert "No running worker serves" not in page
    assert "No worker is picking up runs" in page
    assert "A worker is running that serves their workflows: see its log." in page
    claimed(make_run(phase="ready"), worker="host-1:77")
    page = page_of(as_("otto"))
    assert "Runs are waiting for a worker" in page
    assert "host-1:77" in page


def test_an_installation_without_problems_says_so_and_a_run_just_created_is_none(everybody, as_):
    assert "Nothing needs attention" in page_of(as_("adam"))
    make_run(phase="ready", updated=timezone.now())
    assert (found().backlog.count, found().backlog.late, found().clear) == (1, False, True)


def test_held_runs_overdue_and_unanswerable_requests_and_late_schedules_are_shown(everybody, as_):
    held, run = make_run(phase="paused", title="Held one"), make_run()
    make_run(phase="paused", acted_by="otto", title="Paused on purpose")
    ask(run, "Late?", due=timezone.now() - timedelta(hours=1))
    ask(run, "For no one?", stuck="nobody", by=["legal"])
    times = {"created": people.THEN, "updated": people.THEN, "next_at": timezone.now() - timedelta(hours=2)}
    of = {"id": "0" * 32, "name": "Nightly", "workflow": people.WORKFLOW, "owner": everybody["otto"]}
    Schedule.objects.create(cron="@daily", **of, **times)
    page = page_of(as_("otto"))
    assert all(text in page for text in ("Held one", held.pk[-8:], "Late?", "For no one?", "Nightly"))
    assert "Paused on purpose" not in page
    assert f'href="/runs/{held.pk}/migrate/"' in page
    assert "No one in legal" in page
    assert not found().clear


def test_operators_see_the_workflows_they_operate_and_no_others(everybody, as_):
    Grant.objects.filter(user=everybody["otto"]).update(workflow="mine")
    Grant.objects.create(user=everybody["otto"], role="viewer", workflow="*")
    fail("SecretError")
    fail("MyError", workflow="mine")
    assert [group.error for group in found().groups] == ["myerror"]
    assert "SecretError" not in page_of(as_("otto"))
    assert [problems.count() for problems in figures.problems_of(people.viewer("otto"))] == [1, 0]


@pytest.mark.parametrize("name", ["ana", "vera", "sam"])
def test_others_have_neither_the_page_nor_its_link(everybody, as_, name):
    fail()
    assert as_(name).get("/operations/").status_code == 403
    assert "/operations/" not in as_(name).get("/runs/").content.decode()


def test_the_navigation_counts_recent_failures_and_held_runs(everybody, as_, monkeypatch):
    assert "count bad" not in as_("otto").get("/workflows/").content.decode()
    fail()
    fail(ago=timedelta(days=2))
    make_run(phase="paused")
    assert '<span class="count bad" title="Failed in the last day, or held">2</span>' in page_of(as_("otto"))
    monkeypatch.setattr(figures, "MOST_COUNTED", 1)
    monkeypatch.setattr("wfdash.web.pages.site.context_processors.MOST_COUNTED", 1)
    assert ">1+</span>" in page_of(as_("otto"))


def test_the_page_costs_the_same_however_much_there_is(everybody, django_assert_max_num_queries):
    for number in range(12):
        fail(f"Error{number}")
        ask(make_run(), due=timezone.now() - timedelta(hours=1), stuck="x")
    viewer = people.viewer("otto")
    with django_assert_max_num_queries(20):
        read_operations(viewer, examples=False)
    assert HumanRequest.objects.count() == 12


def test_the_part_that_renews_itself_is_the_part_below_the_headline(everybody, as_):
    fail()
    part = as_("otto").get("/operations/?days=7&fragment=now").content.decode()
    assert re.match(r'\s*<div\s+id="attention"', part)
    assert "days=7&amp;fragment=now" in part
    assert as_("otto").get("/operations/?fragment=other").status_code == 404


def known(error: str = "TimeoutError", **facts: Any) -> KnownError:
    """Let a run fail and be indexed, and return what is known of its error."""
    run = make_run(phase="failed", finished=timezone.now(), error={"type": f"lib.{error}", "message": "no"}, **facts)
    assert index_failures() == 1
    return KnownError.objects.get(workflow=run.workflow, error=error.lower())


def test_an_error_is_new_and_has_regressed_when_it_comes_back_after_a_week(everybody, as_):
    one = known(version="v7")
    (group,) = found().groups
    assert (group.new, group.regressed, group.first_version) == (True, False, "v7")
    assert "New</strong>" in page_of(as_("otto"))
    long_ago = timezone.now() - timedelta(days=8)
    KnownError.objects.filter(pk=one.pk).update(first_at=long_ago, last_at=long_ago)
    known(version="v8")
    (group,) = found().groups
    assert (group.new, group.regressed, group.first_version) == (False, True, "v7")


def test_an_error_is_assigned_to_who_may_operate_and_found_by_that(everybody, as_):
    one, client = known(), as_("otto")
    sent = {"workflow": one.workflow, "error": one.error, "assignee": "adam"}
    client.post("/operations/errors/", sent)
    assert [len(found(assignee=name).groups) for name in ("adam", "me", "none")] == [1, 0, 0]
    assert ("adam</a> is on it" in page_of(client), "<option" in page_of(client)) == (True, False)
    offered = client.get("/operations/?fragment=operators").text
    assert ['<option value="adam">' in offered, '<option value="ana">' in offered] == [True, False]
    assert "does not operate" in client.post("/operations/errors/", sent | {"assignee": "ana"}, follow=True).text
    assert client.put("/api/v1/operations/errors", sent | {"assignee": "ana"}, "application/json").status_code == 422
    assert client.put("/api/v1/operations/errors", sent | {"assignee": ""}, "application/json").status_code == 204
    assert [entry.facts["assignee"] for entry in AuditEntry.objects.filter(verb="assign error")] == ["adam", ""]
    assert as_("vera").post("/operations/errors/", sent).status_code == 403
    assert client.post("/operations/errors/", sent | {"error": "unknown"}).status_code == 404


@pytest.mark.parametrize(("mute", "back"), [("day", {"last_at": LATER}), ("version", {"last_version": "next"})])
def test_a_muted_error_comes_back_after_its_time_or_in_a_new_version(everybody, as_, mute, back):
    one = known()
    as_("otto").post("/operations/errors/", {"workflow": one.workflow, "error": one.error, "mute": mute})
    assert "count bad" not in page_of(as_("otto"))
    known()
    assert ([len(found().groups), len(found().muted)]) == [0, 1]
    assert "1 muted error" in page_of(as_("otto"))
    KnownError.objects.update(**back)
    assert ([len(found().groups), len(found().muted)]) == [1, 0]
    assert 'title="Failed in the last day, or held">2</span>' in page_of(as_("otto"))
    as_("otto").post("/operations/errors/", {"workflow": one.workflow, "error": one.error, "mute": ""})
    assert AuditEntry.objects.filter(verb__in=["mute error", "unmute error"]).count() == 2


def test_an_error_of_no_known_version_is_not_muted_until_another_one(everybody, as_):
    one = known()
    KnownError.objects.update(last_version="")
    given = {"workflow": one.workflow, "error": one.error, "mute": "version"}
    said = as_("otto").post("/operations/errors/", given, follow=True).content.decode()
    assert ("Its version is not known" in said, len(found().groups), len(found().muted)) == (True, 1, 0)
