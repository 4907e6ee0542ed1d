from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from checkpoints.models import Answer, Grant, HumanRequest, Run, RunFact, Schedule, Tally
from tests import people
from tests.people import ask, count_all_events, happen, make_run, step
from wfdash.domain.errors import NotFound
from wfdash.queries.statistics.durations import Measure, bucket_of, value_of
from wfdash.queries.statistics.figures import read_statistics
from wfdash.web.pages.ui.times import estimate


@pytest.fixture
def tally() -> Callable[..., Tally]:
    """Store a figure of some time ago."""

    def add(
        measure: Measure, ago: timedelta = timedelta(), seconds: float = 0.0, count: int = 1, **names: str
    ) -> Tally:
        hour = (timezone.now() - ago).replace(minute=0, second=0, microsecond=0)
        bucket = bucket_of(seconds) if seconds else 0
        given = {"workflow": people.WORKFLOW, **names, "bucket": bucket, "count": count, "total": seconds * count}
        return Tally.objects.create(measure=measure, hour=hour, **given)

    return add


def failed(error: str, message: str = "no answer", **facts: Any) -> Run:
    """Make a run that has just failed, as the search index knows it."""
    given = {"phase": "failed", "finished": timezone.now(), "error": {"type": error, "message": message}}
    run = make_run(**(given | facts))
    for text in {error.lower(), error.rpartition(".")[2].lower()}:
        RunFact.objects.create(run=run, name="error", text=text, created=run.created)
    return run


def decide(
    run: Run,
    verdict: str = "approve",
    *,
    at: datetime | None = None,
    after: timedelta = timedelta(minutes=5),
    **facts: Any,
) -> HumanRequest:
    """Make a request that was answered at this time (now); by the deadline, if that is the verdict."""
    at = at or timezone.now()
    request = ask(run, created=at - after, answered=at, closed=at, closed_as="taken", **facts)
    by = None if verdict == "deadline" else User.objects.get(username="ana")
    Answer.objects.create(request=request, by=by, verdict=verdict.replace("deadline", "approve"), value={}, at=at)
    return request


class Words(HTMLParser):
    """The texts of a page, without the spaces of its source."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.parts.append(data.strip())

    def __str__(self) -> str:
        return " ".join(filter(None, self.parts))


def read(client: Client, query: str = "") -> str:
    answer = client.get(f"/statistics/{query}")
    assert answer.status_code == 200
    return str(Words(answer.content.decode()))


def test_what_happened_is_told_from_events_to_the_page(run: Run, as_):
    now = timezone.now()
    happen(run, ("run.started", None, {}), *step("read", "finished", ms=240.0), *step("pay", "failed", "retrying"))
    run.events.update(at=now)
    count_all_events()
    failed(error="OSError", message="hush")
    page = read(as_("ana"))
    assert "OSError" in page
    assert "hush" not in page
    assert "Read" in page
    assert estimate(value_of(bucket_of(0.24))) in page


def test_nothing_to_tell_is_said(as_, everybody):
    assert "No data yet" in read(as_("otto"))
    assert "No data yet" in read(as_("sam"))


@pytest.mark.parametrize(
    ("query", "unit"), [("?days=1", "hour"), ("?days=7", "day"), ("?days=30", "day"), ("?days=x", "day")]
)
def test_the_range_is_an_address(as_, run, query, unit):
    assert f"Runs per {unit}" in read(as_("otto"), query)


def test_a_day_is_a_slot_and_what_is_older_is_left_out(everybody):
    now = timezone.now()
    for days, count in ((0, 1), (6, 2), (8, 4)):
        for _ in range(count):
            make_run(created=now - timedelta(days=days))
    assert read_statistics(people.viewer("otto"), 7).flow["started"] == (2, 0, 0, 0, 0, 0, 1)
    assert sum(read_statistics(people.viewer("otto"), 30).flow["started"]) == 7
    assert read_statistics(people.viewer("otto"), 1).flow["started"][-1] == 1


def test_durations_of_hours_add_up(everybody, tally):
    for hours, seconds in enumerate((1.0, 1.0, 1.0, 100.0)):
        tally(Measure.STEP, timedelta(hours=hours), seconds, step="pay")
    (row,) = read_statistics(people.viewer("otto"), 7).steps
    assert row.spread.count == 4
    assert row.spread.p50 == pytest.approx(1.0, rel=0.05)
    assert row.spread.p95 == pytest.approx(100.0, rel=0.05)
    assert row.spread.mean == pytest.approx(103 / 4)


def test_who_sees_one_workflow_sees_the_figures_of_that_one(as_, everybody):
    failed(error="MineError")
    failed(error="TheirError", workflow="payroll")
    decide(make_run(workflow="payroll"), step="their_gate")
    Grant.objects.create(user=everybody["sam"], role="viewer", workflow=people.WORKFLOW)
    page = read(as_("sam"))
    assert "MineError" in page
    assert not any(text in page for text in ("TheirError", "payroll", "Their gate"))
    assert as_("sam").get("/statistics/?workflow=payroll").status_code == 404
    with pytest.raises(NotFound):
        read_statistics(people.viewer("sam"), 7, "payroll")
    assert "their_gate" not in as_("sam").get("/decisions/").content.decode()


def test_one_workflow_can_be_chosen(as_, everybody):
    failed(error="MineError")
    failed(error="OtherError", workflow="payroll")
    page = read(as_("otto"), "?workflow=payroll")
    assert "OtherError" in page
    assert "MineError" not in page


def test_gates_and_who_was_asked_are_told_apart(as_, run, everybody):
    for by in (["finance"], ["ana", "ben"], [], ["requester"], ["finance", "ana"]):
        decide(run, by=by, after=timedelta(hours=1))
    for _ in range(3):
        decide(run, "deadline", by=["finance"])
    decide(run, "deadline", step="lonely_gate")
    page = read(as_("otto"))
    for words in ("finance", "People by name", "Any reviewer", "The requester", "Lonely gate"):
        assert words in page
    found = read_statistics(people.viewer("otto")).decisions
    gates = {gate.step: (gate.spread.count, gate.total("deadline")) for gate in found.gates}
    assert gates == {"review": (5, 3), "lonely_gate": (0, 1)}
    counts = {label: spread.count for label, spread in found.asked.items()}
    assert counts == {"group:finance": 2, "named": 2, "anybody": 1, "requester": 1}


def test_what_waits_the_longest_comes_first_with_its_address(as_, run, question):
    later = people.ask(run, "Pay 1?")
    page = as_("otto").get("/statistics/").content.decode()
    assert 0 < page.index(f"/requests/{question.pk}/") < page.index(f"/requests/{later.pk}/")


def test_runs_are_counted_by_state_with_the_address_of_their_list(as_, run):
    make_run(phase="failed", finished=people.THEN)
    make_run(phase="completed")
    page = as_("otto").get(f"/statistics/?workflow={run.workflow}").content.decode()
    assert f"/runs/?q={quote('status:failed')}+{quote('workflow:' + run.workflow)}" in page
    assert f"/runs/?q={quote('status:completed')}+{quote('workflow:' + run.workflow)}" not in page


def test_a_schedule_that_is_late_is_told(as_, everybody):
    now = timezone.now()
    given = {
        "workflow": people.WORKFLOW,
        "cron": "0 9 * * *",
        "owner": everybody["otto"],
        "created": now,
        "updated": now,
    }
    Schedule.objects.create(id="a", name="Nightly", next_at=now - timedelta(minutes=5), **given)
    Schedule.objects.create(id="b", name="Weekly", next_at=now + timedelta(minutes=5), **given)
    page = read(as_("otto"))
    assert "Overdue schedules" in page
    assert "Nightly" in page
    assert "Weekly" not in page


def test_however_much_happened_the_queries_are_as_many(as_, run, tally, django_assert_max_num_queries):
    client = as_("otto")
    for n in range(30):
        tally(Measure.STEP, timedelta(hours=n), 1.0 + n, step=f"step{n}")
        make_run(phase="failed", finished=people.THEN)
        people.ask(run)
    with django_assert_max_num_queries(21):
        client.get("/statistics/?days=30")


def test_names_of_errors_and_steps_are_text_not_markup(as_, tally, run):
    failed(error="<script>alert(1)</script>")
    tally(Measure.STEP, seconds=1.0, step="<b>bold</b>")
    decide(run, step='"><img src=x>')
    html = as_("otto").get("/statistics/").content.decode()
    assert not any(text in html for text in ("<script>alert", "<b>bold", "<img src=x"))
