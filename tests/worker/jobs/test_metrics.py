"""Figures: each event is counted once, whichever process counts, and what a histogram says is nearly true."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import ids
from checkpoints.database.high_water_mark import HighWaterMark
from checkpoints.models import Answer, Event, HumanRequest, Run, Tally, TallyMark
from checkpoints.models.fields import encrypted_for
from checkpoints.sql.conninfo import parameters_of
from wfdash.actions.statistics import KEPT_METRICS, count_events, tidy
from wfdash.queries.statistics.durations import (
    ALL_TIME,
    GROWTH,
    LEAST_SECONDS,
    Measure,
    asked_of,
    bucket_of,
    quantile,
    spread_of,
    up_to,
    value_of,
)
from wfdash.worker import sweeps

THEN = datetime(2026, 1, 5, 9, 20, tzinfo=UTC)
HOUR = THEN.replace(minute=0)
DURATIONS = st.floats(min_value=LEAST_SECONDS, max_value=1e8)


@pytest.fixture(params=["sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)])
def alias(request: Any, django_db_blocker: Any) -> Iterator[str]:
    """Both databases, empty."""
    name = request.getfixturevalue(request.param)
    with django_db_blocker.unblock():
        for model in (TallyMark, Tally, Answer, HumanRequest, Event, Run, Group, User):
            model.objects.using(name).all().delete()
        TallyMark.objects.using(name).create(pk=1, event=newest(name))
        yield name
        connections[name].close()


def newest(alias: str) -> int:
    """Ids go on where they were: rows of other tests were there."""
    run = make_run(alias)
    happen(alias, run, "custom")
    last = Event.objects.using(alias).order_by("-pk").values_list("pk", flat=True)[0]
    Run.objects.using(alias).all().delete()
    return last


def make_run(alias: str, workflow: str = "expense", **facts: Any) -> Run:
    run_id = ids.new_run_id()
    given = {"workflow": workflow, "version": "v1", "created": THEN, "updated": THEN}
    return Run.objects.using(alias).create(id=run_id, family=run_id, **{**given, **facts})


def happen(alias: str, run: Run, kind: str, step: str | None = None, at: datetime = THEN, **data: Any) -> Event:
    run.seq += 1
    row = Event(run_id=run.pk, seq=run.seq, kind=kind, step=step, data=data, at=at)
    row.save(using=alias)
    return row


def count_all(alias: str, high_water_mark: HighWaterMark | None = None, limit: int = 1000) -> int:
    high_water_mark, counted = high_water_mark or HighWaterMark(alias), 0
    while done := count_events(high_water_mark, limit, alias):
        counted += done
    return counted


def counted(alias: str, measure: Measure, hour: datetime | None = None) -> dict[tuple[str, str, str], int]:
    rows = Tally.objects.using(alias).filter(measure=measure)
    found: Counter[tuple[str, str, str]] = Counter()
    for row in rows.filter(hour=hour) if hour else rows.exclude(hour=ALL_TIME):
        found[row.workflow, row.step, row.label] += row.count
    return dict(found)


@given(st.lists(DURATIONS, min_size=1, max_size=200), st.floats(min_value=0.01, max_value=1.0))
def test_a_quantile_is_off_by_less_than_a_twentieth(durations: list[float], part: float) -> None:
    counts = Counter(bucket_of(seconds) for seconds in durations)
    true = sorted(durations)[max(1, math.ceil(part * len(durations))) - 1]
    told = quantile(counts, part)
    assert told is not None
    assert abs(told - true) <= 0.05 * true


@given(DURATIONS)
def test_a_bucket_holds_what_lies_between_two_powers(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert GROWTH ** (bucket - 1) * (1 - 1e-6) <= seconds <= GROWTH**bucket * (1 + 1e-6)


@given(st.lists(DURATIONS, max_size=50), st.lists(DURATIONS, max_size=50))
def test_histograms_add_up(ones: list[float], others: list[float]) -> None:
    first, second = (Counter(map(bucket_of, values)) for values in (ones, others))
    assert first + second == Counter(map(bucket_of, ones + others))


def test_nothing_has_no_quantile_and_what_is_too_short_counts_as_the_shortest() -> None:
    assert quantile({}, 0.5) is None
    assert spread_of({}, 0.0).count == 0
    assert bucket_of(0.0) == bucket_of(-3.0) == bucket_of(LEAST_SECONDS)
    with pytest.raises(ValueError, match="number of seconds"):
        bucket_of(math.nan)


@given(st.lists(DURATIONS, max_size=50))
def test_counts_up_to_a_bound_only_grow(durations: list[float]) -> None:
    counts = Counter(map(bucket_of, durations))
    told = up_to(counts, (0.1, 1, 60, 1e9))
    assert told == sorted(told)
    assert told[-1] == len(durations)
    assert all(value_of(bucket) > 0 for bucket in counts)


def test_those_who_were_asked_are_groups_but_never_people() -> None:
    assert asked_of([], []) == ("anybody",)
    assert asked_of(["finance", "ana", "ben", "requester"], ["finance"]) == ("group:finance", "named", "requester")


def test_what_happened_is_counted_in_its_hour_and_forever(alias: str) -> None:
    run = make_run(alias)
    happen(alias, run, "run.started", at=THEN + timedelta(seconds=2))
    happen(alias, run, "step.finished", "read", activation="1", ms=250.0, output={"secret": 1})
    happen(alias, run, "step.failed", "pay", activation="2", attempt=1, error={"type": "OSError", "message": "no"})
    happen(alias, run, "step.retrying", "pay", activation="2", attempt=2)
    happen(alias, run, "run.failed", at=THEN + timedelta(hours=2), error={"type": "OSError", "message": "no"})
    assert count_all(alias) == 5
    assert (
        counted(alias, Measure.STARTED, HOUR) == counted(alias, Measure.STARTED, ALL_TIME) == {("expense", "", ""): 1}
    )
    assert counted(alias, Measure.FAILED, HOUR + timedelta(hours=2)) == {("expense", "", "OSError"): 1}
    assert counted(alias, Measure.STEP_RETRIED) == counted(alias, Measure.STEP_FAILED) == {("expense", "pay", ""): 1}
    (step,) = Tally.objects.using(alias).filter(measure=Measure.STEP, hour=HOUR)
    assert (step.step, step.bucket, step.total) == ("read", bucket_of(0.25), 0.25)
    (queue,) = Tally.objects.using(alias).filter(measure=Measure.QUEUE, hour=HOUR)
    assert queue.total == 2.0
    happen(alias, run, "run.retried", at=THEN + timedelta(hours=5), by="ana")
    happen(alias, run, "run.completed", at=THEN + timedelta(hours=5, seconds=8))
    count_all(alias)
    (whole,) = Tally.objects.using(alias).filter(measure=Measure.RUN, hour=ALL_TIME)
    assert whole.total == timedelta(hours=2, seconds=8).total_seconds(), "not the three hours in which it had failed"


def test_decisions_are_told_from_deadlines_and_by_who_was_asked(alias: str) -> None:
    run = make_run(alias)
    Group.objects.using(alias).create(name="finance")
    ana = User.objects.using(alias).create(username="ana")
    for key, by, who in (("a", ["finance", "ana"], ana), ("b", [], None)):
        asked = HumanRequest(id=ids.new_request_id(), run_id=run.pk, key=key, workflow="expense", step="review", by=by)
        asked.created = THEN
        asked.save(using=alias)
        Answer(request_id=asked.pk, by=who, at=THEN + timedelta(minutes=10)).save(using=alias)
        happen(alias, run, "request.answered", "review", request=asked.pk)
    count_all(alias)
    assert counted(alias, Measure.DECISION) == {("expense", "review", ""): 1}
    assert counted(alias, Measure.LAPSED) == {("expense", "review", ""): 1}
    assert counted(alias, Measure.ASKED) == {("expense", "", "group:finance"): 1, ("expense", "", "named"): 1}


def test_of_an_encrypted_failure_the_class_is_counted(alias: str, settings: Any) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "x" * 40
    run = make_run(alias)
    happen(alias, run, "run.failed", error={"type": "OSError", "message": "hush"})
    assert count_all(alias) == 1
    assert counted(alias, Measure.FAILED) == {("expense", "", "OSError"): 1}
    settings.WFDASH_ENCRYPTION_KEYS = ""
    locked = encrypted_for(Event, "data", {}, run.pk, "2")
    happen(alias, run, "run.failed", **locked)
    assert count_all(alias) == 1


@pytest.mark.parametrize("sweepers", [3])
def test_however_many_count_at_the_same_moment_each_event_counts_once(alias: str, sweepers: int) -> None:
    runs = [make_run(alias) for _ in range(5)]
    for run in runs:
        for n in range(20):
            happen(alias, run, "step.finished", "read", ms=float(n + 1))
    begin = threading.Barrier(sweepers)

    def sweep(_: int) -> int:
        high_water_mark, done = HighWaterMark(alias), 0
        begin.wait()
        try:
            while TallyMark.objects.using(alias).get().event < last:
                done += count_events(high_water_mark, 7, alias)
            return done
        finally:
            connections[alias].close()

    last = Event.objects.using(alias).order_by("-pk").values_list("pk", flat=True)[0]
    with ThreadPoolExecutor(sweepers) as threads:
        assert sum(threads.map(sweep, range(sweepers))) == 100
    assert counted(alias, Measure.STEP) == counted(alias, Measure.STEP, ALL_TIME) == {("expense", "read", ""): 100}


def test_a_sum_that_could_not_be_kept_is_counted_again(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    happen(alias, make_run(alias), "run.started")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        patched.setattr("wfdash.actions.statistics._add_rows", broken)
        count_events(HighWaterMark(alias), 10, alias)
    assert count_all(alias) == 1
    assert counted(alias, Measure.STARTED) == {("expense", "", ""): 1}


def broken(*_: Any) -> None:
    raise OSError("the disk is full")


@pytest.mark.postgres
@pytest.mark.parametrize("alias", ["postgres_alias"], indirect=True)
def test_an_id_taken_early_and_committed_late_is_not_passed_over(alias: str) -> None:
    early, late = make_run(alias), make_run(alias)
    high_water_mark = HighWaterMark(alias)
    with psycopg.connect(**parameters_of(connections[alias].settings_dict)) as open_transaction:
        open_transaction.execute("UPDATE checkpoints_run SET seq=1 WHERE id=%s", (early.pk,))
        open_transaction.execute(
            "INSERT INTO checkpoints_event (run_id, seq, kind, data, at) VALUES (%s, 1, 'run.started', '{}', %s)",
            (early.pk, THEN),
        )
        happen(alias, late, "run.completed")
        assert [count_events(high_water_mark, 100, alias) for _ in range(3)] == [0, 0, 0]
        open_transaction.commit()
        with open_transaction.transaction():
            open_transaction.execute(
                "INSERT INTO checkpoints_event (run_id, seq, kind, data, at) VALUES (%s, 2, 'run.started', '{}', %s)",
                (early.pk, THEN),
            )
            # What began after the look does not hold it up.
            assert count_all(alias, high_water_mark) == 2
            open_transaction.execute("DELETE FROM checkpoints_event WHERE run_id=%s AND seq=2", (early.pk,))
    assert counted(alias, Measure.STARTED) == counted(alias, Measure.COMPLETED) == {("expense", "", ""): 1}


@pytest.mark.postgres
@pytest.mark.parametrize("alias", ["postgres_alias"], indirect=True)
def test_of_two_that_write_at_once_the_one_with_the_lower_id_may_commit_last(alias: str) -> None:
    """The transaction that began later took the first id: nothing of it shows in a snapshot, but its lock does."""
    first, second = make_run(alias), make_run(alias)
    high_water_mark, parameters = HighWaterMark(alias), parameters_of(connections[alias].settings_dict)
    with psycopg.connect(**parameters) as one, psycopg.connect(**parameters) as other:
        for writer, run in (one, first), (other, second):
            writer.execute("UPDATE checkpoints_run SET seq=1 WHERE id=%s", (run.pk,))
        for writer, run in (other, second), (one, first):
            writer.execute(
                "INSERT INTO checkpoints_event (run_id, seq, kind, data, at) VALUES (%s, 1, 'run.started', '{}', %s)",
                (run.pk, THEN),
            )
        one.commit()
        assert [count_events(high_water_mark, 100, alias) for _ in range(3)] == [0, 0, 0]
        assert high_water_mark.waits
        other.commit()
        # A transaction that writes no events holds up nothing.
        with one.transaction():
            one.execute("UPDATE checkpoints_run SET seq=2 WHERE id=%s", (first.pk,))
            assert count_all(alias, high_water_mark) == 2
    assert not high_water_mark.waits
    assert counted(alias, Measure.STARTED) == {("expense", "", ""): 2}


def test_days_that_are_over_are_put_together_and_old_ones_forgotten(alias: str) -> None:
    run = make_run(alias)
    for hours in (0, 1, 5, 30):
        happen(alias, run, "step.finished", "read", ms=100.0, at=THEN + timedelta(hours=hours))
    count_all(alias)
    assert tidy(THEN, alias) == 0
    assert tidy(THEN + timedelta(days=20), alias) == 2
    assert tidy(THEN + timedelta(days=20), alias) == 0
    rows = Tally.objects.using(alias).filter(measure=Measure.STEP).exclude(hour=ALL_TIME).order_by("hour")
    midnight = THEN.replace(hour=0, minute=0)
    assert [(row.hour, row.count) for row in rows] == [(midnight, 3), (midnight + timedelta(days=1), 1)]
    assert sum(row.total for row in rows) == pytest.approx(0.4)
    assert tidy(THEN + KEPT_METRICS + timedelta(days=10), alias) == 2
    assert counted(alias, Measure.STEP, ALL_TIME) == {("expense", "read", ""): 4}


@pytest.mark.parametrize("more", [True, False])
def test_making_roll_ups_leaves_most_of_the_time_to_others(monkeypatch, more):
    def make(now: datetime) -> bool:
        time.sleep(0.01)
        return more

    monkeypatch.setattr(sweeps, "database_now", lambda: THEN)
    monkeypatch.setattr(sweeps.statistics, "make_next", make)
    assert 0.03 <= sweeps.roll_up() <= 0.9 if more else sweeps.roll_up() == math.inf
