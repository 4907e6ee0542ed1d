"""Rows of the same moment: no order skips one or lists it twice, whether SQL or the ORM wrote the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import AuditEntry, Checkpoint, Event, HumanRequest, Run, Schedule, WorkflowVersion
from checkpoints.sql.statements import POSTGRES, SQLITE
from tests import people
from wfdash.actions.runs import search_index
from wfdash.queries.audit import read_entries
from wfdash.queries.history import read_checkpoints
from wfdash.queries.requests.inbox import SORTS, next_request, read_inbox, read_neighbours
from wfdash.queries.runs.listing import read_runs
from wfdash.queries.schedules import read_schedules
from wfdash.records.base import Page

MANY = 11
WHOLE_SECOND = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
DIALECT = POSTGRES if connection.vendor == "postgresql" else SQLITE


@dataclass(frozen=True)
class Writer:
    """Who writes a time, and which."""

    by: str
    at: datetime | None

    def stamp(self, model: type[Any], column: str = "created") -> None:
        """Give all rows one time."""
        if self.by == "orm":
            model.objects.update(**{column: self.at or timezone.now()})
            return
        table = model._meta.db_table
        value, params = ("?", (DIALECT.moment(self.at),)) if self.at else ("(SELECT {now})", ())
        with connection.cursor() as cursor:
            # Django's cursor takes %s on both databases.
            cursor.execute(DIALECT.sql(f"UPDATE {table} SET {column} = {value}").replace("?", "%s"), params)


@pytest.fixture(
    params=[Writer("sql", None), Writer("orm", None), Writer("sql", WHOLE_SECOND), Writer("orm", WHOLE_SECOND)],
    ids=["sql-now", "orm-now", "sql-whole-second", "orm-whole-second"],
)
def writer(request: pytest.FixtureRequest) -> Writer:
    return request.param


@pytest.fixture(autouse=True)
def everybody(db: None) -> dict[str, Any]:
    return people.make_people()


def walked(page: Callable[[str], Page[Any]]) -> list[str]:
    """Return the ids of all pages; ends with an error where pages never do."""
    found: list[str] = []
    cursor = ""
    for _ in range(MANY + 1):
        part = page(cursor)
        found += [row.id for row in part.items]
        cursor = part.next
        if not cursor:
            return found
    raise AssertionError("the pages have no end")


def once_each(found: Iterable[str], wanted: Iterable[str]) -> None:
    assert sorted(found) == sorted(wanted)


def asked(**facts: Any) -> list[str]:
    """Open requests of several risks, with and without a deadline that they share."""
    run = people.make_run()
    rows = [
        people.ask(run, f"Number {n}", risk=n % 2 + 1, due=WHOLE_SECOND if n % 3 else None, **facts)
        for n in range(MANY)
    ]
    return [row.pk for row in rows]


@pytest.mark.parametrize("sort", SORTS)
def test_pages_of_the_inbox_list_every_request_once(sort, writer):
    wanted = asked()
    writer.stamp(HumanRequest)
    viewer = people.viewer("ana")
    once_each(walked(lambda cursor: read_inbox(viewer, "mine", sort=sort, cursor=cursor, limit=4)), wanted)


@pytest.mark.parametrize("sort", SORTS)
def test_neighbours_lead_through_every_request_and_back(sort, writer):
    wanted = asked()
    writer.stamp(HumanRequest)
    viewer = people.viewer("ana")
    listed = [row.id for row in read_inbox(viewer, "mine", sort=sort, limit=MANY).items]
    once_each(listed, wanted)
    beside = [read_neighbours(viewer, id_, "mine", sort=sort) for id_ in listed]
    before, after = ["", *listed[:-1]], [*listed[1:], ""]
    assert beside == list(zip(before, after, range(1, MANY + 1), strict=True))


def test_after_an_answer_the_next_of_the_list_opens(writer):
    asked()
    writer.stamp(HumanRequest)
    viewer = people.viewer("ana")
    left = [row.id for row in read_inbox(viewer, "mine", limit=MANY).items]
    here, seen = left[0], []
    while here:
        seen.append(here)
        HumanRequest.objects.filter(pk=here).update(answered=timezone.now())
        here = next_request(viewer, here, "mine")
    assert seen == left


def test_answered_requests_of_one_moment_are_listed_once(writer, everybody):
    run = people.make_run()
    wanted = [people.ask(run, f"Number {n}") for n in range(MANY)]
    for request in wanted:
        people.answered(request, everybody["ana"])
    writer.stamp(HumanRequest, "answered")
    viewer = people.viewer("ana")
    found = walked(lambda cursor: read_inbox(viewer, "answered", cursor=cursor, limit=4))
    once_each(found, [request.pk for request in wanted])


@pytest.mark.parametrize("text", ["", "status:waiting", "input.amount:7", "expenses"])
def test_pages_of_runs_list_every_run_once(text, writer):
    WorkflowVersion.objects.create(workflow=people.WORKFLOW, version="v1", description={"input_schema": {}})
    wanted = [people.make_run(input={"amount": 7}).pk for _ in range(MANY)]
    writer.stamp(Run)
    search_index.index_runs()
    viewer = people.viewer("otto")
    once_each(walked(lambda cursor: read_runs(viewer, text, cursor=cursor, limit=4)), wanted)


def test_a_run_that_sql_began_is_found_by_its_input():
    WorkflowVersion.objects.create(workflow=people.WORKFLOW, version="v1", description={"input_schema": {}})
    run = people.make_run(input={"amount": 7})
    Writer("sql", None).stamp(Run)
    search_index.index_runs()
    assert [row.id for row in read_runs(people.viewer("otto"), "input.amount:7").items] == [run.pk]


def test_pages_of_the_audit_log_list_every_entry_once(writer):
    run = people.make_run()
    for number in range(MANY):
        AuditEntry.objects.create(n=number + 1, at=WHOLE_SECOND, actor="adam", verb="pause", run=run.pk, facts={})
    writer.stamp(AuditEntry, "at")
    viewer, found, cursor = people.viewer("adam"), [], ""
    while len(found) <= MANY:
        page = read_entries(viewer, cursor=cursor, limit=4)
        found += [row.n for row in page.items]
        if not (cursor := page.next):
            break
    assert found == list(range(MANY, 0, -1))


def test_checkpoints_of_one_moment_are_listed_once(writer):
    run = people.make_run()
    last = None
    for _ in range(MANY):
        last = people.save(run, last)
    writer.stamp(Checkpoint)
    found, before = [], 0
    while len(found) <= MANY:
        rail = read_checkpoints(people.viewer("otto"), run.pk, before=before, limit=4)
        found += [row.info.n for row in rail.rows]
        if not (before := rail.before):
            break
    assert found == list(range(MANY, 0, -1))


def test_schedules_of_one_moment_are_listed_once(writer, everybody):
    hour = timezone.now() + timedelta(hours=1)
    for number in range(MANY):
        Schedule.objects.create(
            id=ids.new_token(),
            workflow=people.WORKFLOW,
            name=f"Nightly {number:02}",
            cron="0 3 * * *",
            owner=everybody["otto"],
            next_at=hour,
            created=hour,
            updated=hour,
        )
    writer.stamp(Schedule, "next_at")
    rows = [row.id for row in read_schedules(people.viewer("otto")).items]
    once_each(rows, Schedule.objects.values_list("pk", flat=True))
    assert rows == [row.id for row in read_schedules(people.viewer("otto")).items]


@pytest.mark.parametrize("model", [HumanRequest, Run, Event])
def test_a_stored_time_is_equal_to_itself(model, writer):
    run = people.make_run()
    people.ask(run)
    people.happen(run, *people.step("pay", "started"))
    column = "at" if model is Event else "created"
    writer.stamp(model, column)
    at = getattr(model.objects.get(), column)
    assert model.objects.filter(**{column: at}).count() == 1
    assert not model.objects.filter(**{f"{column}__lt": at}).exists()
    assert not model.objects.filter(**{f"{column}__gt": at}).exists()
