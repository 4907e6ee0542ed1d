from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from checkpoints.models import Grant, Run, Schedule, Tally
from tests import people
from tests.people import count_all_events, happen, make_run, step
from wfdash import queries
from wfdash.domain.histograms import Measure, bucket_of, value_of
from wfdash.errors import NotFound
from wfdash.pages.ui.times import estimate


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
    answer = client.get(f"/numbers/{query}")
    assert answer.status_code == 200
    return str(Words(answer.content.decode()))


def test_what_happened_is_told_from_events_to_the_page(run: Run, as_):
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(created=now - timedelta(hours=1))
    happen(run, ("run.started", None, {}), *step("read", "finished", ms=240.0), *step("pay", "failed", "retrying"))
    happen(run, ("run.failed", None, {"error": {"type": "OSError", "message": "hush"}}))
    run.events.update(at=now)
    count_all_events()
    page = read(as_("vera"))
    assert "OSError" in page
    assert "hush" not in page
    assert "Read" in page
    assert estimate(value_of(bucket_of(0.24))) in page
    html = as_("vera").get("/numbers/").content.decode()
    assert f"/runs/?q={quote('error:OSError')}+{quote('workflow:' + run.workflow)}" in html


def test_nothing_to_tell_is_said(as_, everybody):
    assert "No data yet" in read(as_("otto"))
    assert "No data yet" in read(as_("sam"))


@pytest.mark.parametrize(
    ("query", "unit"), [("?days=1", "hour"), ("?days=7", "day"), ("?days=30", "day"), ("?days=x", "day")]
)
def test_the_range_is_an_address(as_, tally, query, unit):
    tally(Measure.STARTED)
    page = read(as_("otto"), query)
    assert f"Runs per {unit}" in page


def test_a_day_is_a_slot_and_what_is_older_is_left_out(everybody, tally):
    for days, count in ((0, 1), (6, 2), (8, 4)):
        tally(Measure.STARTED, timedelta(days=days), count=count)
    told = queries.statistics(people.viewer("otto"), 7)
    assert told.flow[Measure.STARTED] == (2, 0, 0, 0, 0, 0, 1)
    assert sum(queries.statistics(people.viewer("otto"), 30).flow[Measure.STARTED]) == 7
    assert queries.statistics(people.viewer("otto"), 1).flow[Measure.STARTED][-1] == 1


def test_durations_of_hours_add_up(everybody, tally):
    for hours, seconds in enumerate((1.0, 1.0, 1.0, 100.0)):
        tally(Measure.STEP, timedelta(hours=hours), seconds, step="pay")
    (row,) = queries.statistics(people.viewer("otto"), 7).steps
    assert row.spread.count == 4
    assert row.spread.p50 == pytest.approx(1.0, rel=0.05)
    assert row.spread.p95 == pytest.approx(100.0, rel=0.05)
    assert row.spread.mean == pytest.approx(103 / 4)


def test_who_sees_one_workflow_sees_the_figures_of_that_one(as_, everybody, tally):
    tally(Measure.FAILED, label="MineError")
    tally(Measure.FAILED, label="TheirError", workflow="payroll")
    Grant.objects.create(user=everybody["sam"], role="viewer", workflow=people.WORKFLOW)
    page = read(as_("sam"))
    assert "MineError" in page
    assert "TheirError" not in page
    assert "payroll" not in page
    assert as_("sam").get("/numbers/?workflow=payroll").status_code == 404
    with pytest.raises(NotFound):
        queries.statistics(people.viewer("sam"), 7, "payroll")


def test_one_workflow_can_be_chosen(as_, tally):
    tally(Measure.FAILED, label="MineError")
    tally(Measure.FAILED, label="OtherError", workflow="payroll")
    page = read(as_("otto"), "?workflow=payroll")
    assert "OtherError" in page
    assert "MineError" not in page


def test_gates_and_who_was_asked_are_told_apart(as_, tally, everybody):
    Group.objects.get_or_create(name="finance")
    tally(Measure.DECISION, seconds=3600.0, step="review")
    tally(Measure.LAPSED, step="review", count=3)
    tally(Measure.LAPSED, step="lonely_gate", count=2)
    for label in ("group:finance", "named", "anybody", "requester"):
        tally(Measure.ASKED, seconds=3600.0, label=label)
    page = read(as_("otto"))
    for words in ("finance", "People by name", "Any reviewer", "The requester", "Lonely gate"):
        assert words in page
    gates = {row.step: (row.spread.count, row.lapsed) for row in queries.statistics(people.viewer("otto")).gates}
    assert gates == {"review": (1, 3), "lonely_gate": (0, 2)}


def test_what_waits_the_longest_comes_first_with_its_address(as_, run, question):
    later = people.ask(run, "Pay 1?")
    page = as_("otto").get("/numbers/").content.decode()
    assert 0 < page.index(f"/requests/{question.pk}/") < page.index(f"/requests/{later.pk}/")


def test_runs_are_counted_by_state_with_the_address_of_their_list(as_, run):
    make_run(phase="failed")
    make_run(phase="completed")
    page = as_("otto").get(f"/numbers/?workflow={run.workflow}").content.decode()
    assert f"/runs/?q={quote('status:failed')}+{quote('workflow:' + run.workflow)}" in page
    assert quote("status:completed") not in page


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
        make_run(phase="failed")
        people.ask(run)
    with django_assert_max_num_queries(20):
        client.get("/numbers/?days=30")


def test_names_of_errors_and_steps_are_text_not_markup(as_, tally):
    tally(Measure.FAILED, label="<script>alert(1)</script>")
    tally(Measure.STEP, seconds=1.0, step="<b>bold</b>")
    html = as_("otto").get("/numbers/").content.decode()
    assert "<script>alert" not in html
    assert "<b>bold" not in html
