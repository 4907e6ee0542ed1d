"""The list of runs in other orders: pages hold every run once, in order, along whatever index a filter leads."""

from __future__ import annotations

import random
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints.models import Run, RunFact
from tests import people
from wfdash.queries.runs import finding
from wfdash.queries.runs.listing import DEFAULT_SORT, RUN_SORTS, longest, read_runs

LISTING = import_module("wfdash.queries.runs.listing")
FILTERS = [
    "",
    "status:failed",
    "status:ended",
    "tag:eu",
    "-tag:eu",
    "finished:<9h",
    "finished:>1h status:failed",
    "started:>1h",
    "started:<3h -tag:eu",
]


@pytest.fixture
def runs(db: None) -> list[Run]:
    """Runs; many began, or finished, in the same moment."""
    by, chance, now = people.make_people()["otto"], random.Random(7), timezone.now()
    found = []
    for number in range(36):
        phase = chance.choice(["failed", "completed", "cancelled", "waiting", "paused"])
        created = now - timedelta(hours=12 - number // 4)
        ended = (
            created + timedelta(hours=chance.randint(0, 4)) if phase in {"failed", "completed", "cancelled"} else None
        )
        run = people.make_run(phase=phase, created=created, finished=ended, created_by=by if number % 3 else None)
        if number % 2:
            RunFact.objects.create(run=run, name="tag", text="eu", created=created)
        found.append(run)
    return found


def paged(text: str, sort: str, **more: Any) -> list[str]:
    viewer, cursor, found = people.viewer("otto"), "", []
    for _ in range(200):
        page = read_runs(viewer, text, cursor=cursor, limit=7, sort=sort, **more)
        found += [run.id for run in page.items]
        cursor = page.next
        if not cursor:
            return found
    raise AssertionError("pages without end")


def expected(text: str, sort: str) -> list[str]:
    column = "finished" if "finished" in sort else "created"
    ids = set(paged(text, DEFAULT_SORT))
    rows = Run.objects.filter(pk__in=ids, **{f"{column}__isnull": False}).values_list(column, "pk")
    return [pk for _, pk in sorted(rows, reverse=sort.startswith("-"))]


@pytest.mark.parametrize("reach", [5, 5_000])
@pytest.mark.parametrize("sort", list(RUN_SORTS))
def test_pages_hold_every_run_once_and_in_order(runs, sort, reach, monkeypatch):
    orders = {text: expected(text, sort) for text in FILTERS}
    assert len(orders[""]) == (36 if "started" in sort else Run.objects.filter(finished__isnull=False).count())
    monkeypatch.setattr(finding, "MIN_SHARE", 2)
    monkeypatch.setattr(LISTING, "MAX_SCANNED_RUNS", reach)
    monkeypatch.setattr(finding, "MAX_SORTED", reach)
    for text, order in orders.items():
        assert paged(text, sort) == order, text


@pytest.mark.skipif(connection.vendor != "sqlite", reason="plans of SQLite")
@pytest.mark.parametrize("sort", ["-finished", "finished", "started"])
@pytest.mark.parametrize("text", ["", "status:failed"])
def test_an_order_is_that_of_an_index(runs, sort, text):
    plans: list[str] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "u.place" in sql:
            rows = connection.connection.execute(f"EXPLAIN QUERY PLAN {sql}".replace("%s", "?"), params)
            plans.extend(row[3] for row in rows)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        read_runs(people.viewer("otto"), text, sort=sort)
    index = {"": {"run_finished", "run_newest"}, "status:failed": {"run_ended", "run_by_phase"}}[text]
    assert any(name in plan for plan in plans for name in index), plans


def test_the_longest_are_those_of_the_newest_compared(runs, monkeypatch):
    viewer = people.viewer("otto")
    rows, more = longest(viewer, "status:ended")
    taken = [row.finished - row.created for row in rows]
    assert taken == sorted(taken, reverse=True)
    assert (len(rows), more) == (len(paged("status:ended", DEFAULT_SORT)), False)
    assert [row.id for row in longest(viewer, "status:ended", shortest=True)[0]] == [row.id for row in rows][::-1]
    monkeypatch.setattr(LISTING, "MOST_COMPARED", 5)
    rows, more = longest(viewer, "status:ended")
    assert {row.id for row in rows} == set(paged("status:ended", DEFAULT_SORT)[:5])
    assert more
