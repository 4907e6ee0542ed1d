"""Roll-ups say what the tallies say, with whichever code events were counted and whenever they are made."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db.models import Q
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.models import Tally, TallyMark, TallyRollup
from wfdash.actions import statistics
from wfdash.actions.statistics import MetricKey, MetricSums
from wfdash.queries.statistics.durations import (
    ALL_TIME,
    ROLLED_UP,
    SIZED,
    Durations,
    Measure,
    Scope,
    Total,
    bucket_of,
    durations_in,
    hour_at,
    packed,
    rollups_since,
    rollups_with,
    slots_of,
    totals_since,
    unpack,
)

WORKFLOWS = ("expense", "order", "payroll")
SCOPES = (
    Scope(mine=Q(pk__isnull=False), every=True),
    Scope(mine=Q(workflow="order")),
    Scope(mine=Q(workflow__in=["expense", "order"])),
)
ZONES = (UTC, timezone(timedelta(hours=13)), timezone(timedelta(hours=-9, minutes=-30)))


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def rnd() -> random.Random:
    return random.Random(7)


def sums(rnd: random.Random, now: datetime, number: int, days: float = 36) -> dict[MetricKey, MetricSums]:
    """Return what was measured in some hours of the last days."""
    found: dict[MetricKey, MetricSums] = {}
    for _ in range(number):
        measure, seconds = rnd.choice([*ROLLED_UP, Measure.STARTED]), rnd.choice([0.02, 0.5, 7.0, 90.0, 4000.0])
        hour = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=int(rnd.uniform(0, days * 24)))
        step = rnd.choice(["read", "pay"]) if measure.startswith("step") else ""
        bucket = bucket_of(seconds) if measure in SIZED else 0
        for at in (hour, ALL_TIME):
            found[MetricKey(measure.value, at, rnd.choice(WORKFLOWS), step, "", bucket)] = MetricSums(3, seconds * 3)
    return found


def count(found: dict[MetricKey, MetricSums]) -> None:
    """Store what was measured, as the next event."""
    mark = TallyMark.objects.get_or_create(pk=1)[0].event
    assert statistics.keep(found, mark, mark + 1)


def count_by_older_code(found: dict[MetricKey, MetricSums], monkeypatch: pytest.MonkeyPatch) -> None:
    """Store it without the roll-ups."""
    with monkeypatch.context() as older:
        older.setattr(statistics, "follow", lambda *_: None)
        count(found)


def make_all(now: datetime) -> int:
    steps = 0
    while statistics.make_next(now):
        steps += 1
    return steps


def as_text(found: Durations) -> Any:
    totals = {measure: as_numbers(those) for measure, those in found.totals.items()}
    return totals, {
        measure: [(one.count, one.p50, one.p95, one.mean and round(one.mean, 6)) for one in spreads]
        for measure, spreads in found.courses.items()
    }


def as_numbers(totals: dict[tuple[str, str], Total]) -> Any:
    return {key: (one.count, round(one.seconds, 6), dict(one.buckets)) for key, one in totals.items()}


def looks(now: datetime) -> list[Any]:
    """Return what pages show, by scope, range and zone."""
    found: list[Any] = [as_text(durations_in(scope, slots_of(now, 7), now)) for scope in SCOPES]
    for days, zone in zip((1, 2, 30), ZONES, strict=True):
        found += [as_text(durations_in(SCOPES[0], slots_of(now, days, at), now)) for at in dict.fromkeys((UTC, zone))]
    queue = totals_since(SCOPES[0], now - timedelta(hours=24), now)[Measure.QUEUE].values()
    found.append(sum(one.count for one in queue))
    return [*found, as_numbers(totals_since(SCOPES[1], now - timedelta(days=30), now)[Measure.STEP])]


def same_as_tallies(now: datetime) -> bool:
    """Return whether roll-ups are read, after a check that pages show the same without them, once days are merged."""
    statistics.tidy(now)
    rolled, before = looks(now), TallyMark.objects.filter(pk=3).values_list("event", flat=True).first()
    TallyMark.objects.filter(pk=3).update(event=-1)
    assert looks(now) == rolled
    TallyMark.objects.filter(pk=3).update(event=before)
    return before is not None and before == TallyMark.objects.get(pk=1).event


@pytest.mark.django_db
def test_pages_show_the_same_with_roll_ups_and_without(now, rnd):
    count(sums(rnd, now, 200))
    assert not same_as_tallies(now)
    assert 0 < make_all(now) < 40 + 5 * 24
    assert same_as_tallies(now)
    count(sums(rnd, now, 60, days=6))
    assert same_as_tallies(now)
    assert make_all(now) == 0


@pytest.mark.django_db
def test_what_is_shown_with_roll_ups_is_read_from_them(now, rnd):
    count(sums(rnd, now, 80))
    make_all(now)
    before = looks(now)
    Tally.objects.all().delete()
    assert looks(now) == before


@pytest.mark.django_db
def test_while_older_code_counts_too_the_figures_are_right(now, rnd, monkeypatch):
    count(sums(rnd, now, 80))
    make_all(now)
    count_by_older_code(sums(rnd, now, 40), monkeypatch)
    count(sums(rnd, now, 10))
    assert not same_as_tallies(now)
    steps = 0
    while statistics.make_next(now):
        steps += 1
        if steps % 30 == 0 and steps < 100:
            count(sums(rnd, now, 4))
        if steps == 45:
            count_by_older_code(sums(rnd, now, 5), monkeypatch)
    assert same_as_tallies(now)


@pytest.mark.django_db
def test_roll_ups_that_lack_something_are_not_read(now, rnd, monkeypatch):
    count(sums(rnd, now, 80))
    statistics.tidy(now)
    before = looks(now)
    while TallyMark.objects.filter(pk=3, at__lt=now - timedelta(days=10)).count() == 0:
        assert statistics.make_next(now)
    assert looks(now) == before
    make_all(now)
    count_by_older_code(sums(rnd, now, 20, days=2), monkeypatch)
    found = looks(now)
    assert found != before
    TallyRollup.objects.all().delete()
    assert looks(now) == found


@pytest.mark.django_db
def test_a_day_that_is_merged_while_its_roll_ups_are_made_counts_once(now, rnd):
    count(sums(rnd, now, 150, days=9))
    while TallyMark.objects.filter(pk=3, at__lt=now - timedelta(days=4.6)).count() == 0:
        assert statistics.make_next(now)
    assert statistics.tidy(now)
    make_all(now)
    assert same_as_tallies(now)
    assert not statistics.tidy(now)
    assert same_as_tallies(now)


@pytest.mark.django_db
def test_roll_ups_that_no_range_needs_are_removed(now, rnd):
    count(sums(rnd, now, 100))
    make_all(now)
    later = now + timedelta(days=6)
    assert statistics.tidy(later)
    assert set(TallyRollup.objects.values_list("span", flat=True)) <= {24, 96, 384}
    statistics.tidy(now + timedelta(days=60))
    assert not TallyRollup.objects.exists()


@pytest.mark.django_db
def test_making_roll_ups_of_nothing_ends_and_costs_no_look_at_tallies(now, django_assert_num_queries):
    assert not statistics.make_next(now)
    count({})
    make_all(now)
    with django_assert_num_queries(2):
        assert not statistics.make_next(now)
    assert totals_since(SCOPES[0], now - timedelta(hours=24), now)[Measure.QUEUE] == {}


@given(st.integers(0, 10**6), st.integers(0, 24 * 40))
def test_few_roll_ups_have_each_hour_once_and_none_before(first: int, hours: int) -> None:
    parts = list(rollups_since(first, first + hours))
    covered = [hour for span, begin in parts for hour in range(begin, begin + span)]
    assert covered == list(range(first, first + len(covered)))
    assert len(covered) > hours
    assert len(parts) <= 5 + 3 + 3 + 3 + 3
    assert all((span, begin) in rollups_with(begin + span - 1) for span, begin in parts)


@settings(max_examples=20)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["run", "step"]), st.sampled_from(["", "pay", '"é'])),
        st.dictionaries(st.integers(-100, 200), st.integers(1, 10**9), max_size=5),
        max_size=4,
    )
)
def test_what_is_packed_is_unpacked(counts: dict[tuple[str, str], dict[int, int]]) -> None:
    rolled = {}
    for key, buckets in counts.items():
        rolled[key] = Total()
        for bucket, number in buckets.items():
            rolled[key].add(bucket, number, 0.5)
    found: dict[tuple[str, str], Total] = {}
    unpack(packed(rolled), found)
    assert found == rolled
    assert hour_at(0) == ALL_TIME
