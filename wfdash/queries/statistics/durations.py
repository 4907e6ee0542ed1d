"""How long runs, steps and queues took, and how often steps failed: from the roll-ups of the tallies.

Where these lack something that the tallies have (see ``wfdash.actions.statistics``), from the tallies: slower,
with the same result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from django.db.models import Exists, Q, QuerySet, Subquery, Sum

from checkpoints.database.compiled import compiled
from checkpoints.database.high_water_mark import ROLLUPS, STATISTICS
from checkpoints.models import Tally, TallyMark, TallyRollup
from wfdash.queries.statistics.histograms import (
    ALL_TIME,
    DAY_SPAN,
    ROLLED_UP,
    Measure,
    RolledUp,
    Total,
    hour_at,
    hour_number,
    rollups_since,
    unpack,
)
from wfdash.records.statistics import DurationSummary, TimeSlot

COURSES = (Measure.RUN, Measure.STEP)
HOURS_KEPT = timedelta(days=3)
"""Tallies that are older are by day: ``wfdash.actions.statistics`` merges their hours."""
Step = tuple[str, str]
"""Workflow and step; no step where a run is measured."""
Totals = dict[Measure, dict[Step, Total]]
Part = tuple[int, int]
"""Span and first hour."""


@dataclass(frozen=True, kw_only=True)
class Durations:
    """What was measured in a time range: in all, by measure; and by slot, of runs and steps."""

    totals: Totals
    courses: dict[Measure, tuple[DurationSummary, ...]]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The workflows that are asked about. ``every``: all there are."""

    mine: Q
    every: bool = False


@dataclass(frozen=True, kw_only=True)
class _Hours:
    """The hours to add up, from the first to the last. Those before ``merged`` are merged into days."""

    first: int
    last: int
    merged: int = 0

    def by_slot(self) -> Iterator[Part]:
        """Yield the days and the hours that slots are made of."""
        yield from ((DAY_SPAN, hour) for hour in range(self.first, self.merged, DAY_SPAN))
        yield from ((1, hour) for hour in range(max(self.first, self.merged), self.last + 1))


@dataclass(kw_only=True)
class _Sums:
    """What was found: by workflow in all, and over all workflows by the part of a slot and the measure."""

    totals: defaultdict[str, RolledUp] = field(default_factory=lambda: defaultdict(dict))
    parts: defaultdict[tuple[Part, str], Total] = field(default_factory=lambda: defaultdict(Total))


def durations_in(scope: Scope, slots: Sequence[TimeSlot], now: datetime) -> Durations:
    """Return what was measured in these slots (one query; three without roll-ups).

    Hours that are merged into one day count where the middle of that day lies.
    """
    hours = _hours(slots, now)
    sums = _of_rollups(scope, hours) or _of_tallies(scope, hours)
    place, courses = slot_finder(slots), defaultdict[tuple[str, int | None], Total](Total)
    for ((span, hour), measure), total in sums.parts.items():
        courses[measure, place(hour_at(hour) + HOUR * span / 2)].join(total)
    return Durations(
        totals=_by_measure(sums.totals),
        courses={measure: tuple(courses[measure, n].spread for n in range(len(slots))) for measure in COURSES},
    )


def totals_since(scope: Scope, since: datetime, now: datetime) -> Totals:
    """Return what was measured since the first whole hour or merged day of this time (one query; two without roll-ups).

    Of all workflows together, where that is the scope: as one without a name.
    """
    merged = hour_at(_merged(now))
    span = DAY_SPAN if since < merged else 1
    hours = _Hours(first=-(-(since - ALL_TIME) // (HOUR * span)) * span, last=hour_number(now))
    totals = defaultdict[str, RolledUp](dict)
    for *_, workflow, data in _rollups_in_all(scope, hours).rows():
        unpack(data, totals[workflow])
    return _by_measure(totals or _totals_of_tallies(_tallies(scope, hours)))


def _merged(now: datetime) -> int:
    """Return the hour before which hours are merged into days."""
    return hour_number(now - HOURS_KEPT) // DAY_SPAN * DAY_SPAN


def _hours(slots: Sequence[TimeSlot], now: datetime) -> _Hours:
    """Return the hours, or merged days, whose middle lies in the slots."""
    merged = _merged(now)
    since, until = slots[0].since.astimezone(UTC), slots[-1].until.astimezone(UTC)
    span = DAY_SPAN if since < hour_at(merged) else 1
    # The first one that begins no earlier than half of it before the first slot.
    first = -(-(since - HOUR * span / 2 - ALL_TIME) // (HOUR * span)) * span
    return _Hours(first=first, last=hour_number(until - HOUR / 2), merged=merged)


def _by_measure(found: Mapping[str, RolledUp]) -> Totals:
    totals: Totals = {measure: {} for measure in ROLLED_UP}
    for workflow, rolled in found.items():
        for (measure, step), total in rolled.items():
            totals[Measure(measure)][workflow, step] = total
    return totals


@compiled
def _rollups_in_all(scope: Scope, hours: _Hours) -> QuerySet[Any, Any]:
    """Return the fewest roll-ups that have these hours: of all workflows together, where that is the scope."""
    return _rolled_up(_any_of(rollups_since(hours.first, hours.last)) & _together(scope), hours)


@compiled
def _rollups_by_slot(scope: Scope, hours: _Hours) -> QuerySet[Any, Any]:
    """Return the roll-ups of each workflow, and those that slots are made of."""
    whole, parts = _any_of(rollups_since(hours.first, hours.last)), _any_of(hours.by_slot())
    each = ~Q(workflow="") if scope.every else scope.mine
    return _rolled_up(whole & each | parts & _together(scope), hours)


def _together(scope: Scope) -> Q:
    """Return the condition of roll-ups of a scope: of all workflows together there are some, without a name."""
    return Q(workflow="") if scope.every else scope.mine


def _rolled_up(wanted: Q, hours: _Hours) -> QuerySet[Any, Any]:
    """Return span, first hour, workflow and data of roll-ups; none unless they have all that the tallies have.

    Queries of them are compiled once an hour.
    """
    counted = TallyMark.objects.filter(pk=STATISTICS).values("event")
    same = TallyMark.objects.filter(pk=ROLLUPS, event=Subquery(counted), at__lte=hour_at(hours.first))
    rows = TallyRollup.objects.filter(wanted, Exists(same))
    return rows.values_list("span", "hour", "workflow", "data")


def _any_of(parts: Iterable[Part]) -> Q:
    """Return the condition of roll-ups with these spans and first hours."""
    hours: defaultdict[int, list[int]] = defaultdict(list)
    for span, hour in parts:
        hours[span].append(hour)
    return reduce(or_, (Q(span=span, hour__in=those) for span, those in hours.items()), Q(pk__in=[]))


def _of_rollups(scope: Scope, hours: _Hours) -> _Sums | None:
    """Return the sums of roll-ups, None if there are none."""
    whole, parts = frozenset(rollups_since(hours.first, hours.last)), frozenset(hours.by_slot())
    sums, found = _Sums(), False
    for span, hour, workflow, data in _rollups_by_slot(scope, hours).rows():
        found, part = True, (span, hour)
        if part in whole and workflow:
            unpack(data, sums.totals[workflow])
        if part in parts and bool(workflow) != scope.every:
            rolled: RolledUp = {}
            unpack(data, rolled)
            for (measure, _), total in rolled.items():
                sums.parts[part, measure].join(total)
    return sums if found else None


def _tallies(scope: Scope, hours: _Hours) -> QuerySet[Tally]:
    within = Q(hour__gte=hour_at(hours.first), hour__lt=hour_at(hours.last + 1))
    return Tally.objects.filter(scope.mine, within, measure__in=ROLLED_UP).order_by()


def _totals_of_tallies(rows: QuerySet[Tally]) -> defaultdict[str, RolledUp]:
    totals = defaultdict[str, RolledUp](dict)
    groups = rows.values_list("workflow", "measure", "step", "bucket").annotate(Sum("count"), Sum("total"))
    for workflow, measure, step, bucket, count, seconds in groups:
        totals[workflow].setdefault((measure, step), Total()).add(bucket, count, seconds)
    return totals


def _of_tallies(scope: Scope, hours: _Hours) -> _Sums:
    rows = _tallies(scope, hours)
    sums = _Sums(totals=_totals_of_tallies(rows))
    groups = rows.filter(measure__in=COURSES).values_list("measure", "hour", "bucket")
    for measure, at, bucket, count, seconds in groups.annotate(Sum("count"), Sum("total")):
        hour = hour_number(at)
        part = (DAY_SPAN, hour) if hour < hours.merged and not hour % DAY_SPAN else (1, hour)
        sums.parts[part, measure].add(bucket, count, seconds)
    return sums


# The hours or days of a chart, in the zone of its reader. Pure.

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS_A_DAY = 24


def slots_of(now: datetime, days: int, zone: tzinfo = UTC) -> tuple[TimeSlot, ...]:
    """Return the last 24 hours, or the last days (more than 1), oldest first; the last one is not over yet.

    They join without a gap: where the clock is set, a day has 23 or 25 hours.
    """
    edges = _hour_edges(now, zone) if days <= 1 else _midnights(now, days, zone)
    return tuple(TimeSlot.trusted(since=since, until=until) for since, until in pairwise(edges))


def slot_finder(slots: Sequence[TimeSlot]) -> Callable[[datetime], int | None]:
    """Return what finds the place of the slot that a time lies in, None for none of them."""
    starts, end = [slot.since.timestamp() for slot in slots], slots[-1].until.timestamp()

    def find(at: datetime) -> int | None:
        seconds = at.timestamp()
        return bisect_right(starts, seconds) - 1 if starts[0] <= seconds < end else None

    return find


def moment(stored: str | datetime) -> datetime:
    """Return a time that was read as the database has it: SQLite in UTC without saying so."""
    at = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _hour_edges(now: datetime, zone: tzinfo) -> list[datetime]:
    local = now.astimezone(zone)
    last = now.astimezone(UTC) - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    return [(last + HOUR * (n + 1)).astimezone(zone) for n in range(-HOURS_A_DAY, 1)]


def _midnights(now: datetime, days: int, zone: tzinfo) -> list[datetime]:
    today = now.astimezone(zone).date()
    # By way of UTC: where midnight is skipped, the day begins when the clock has been set.
    midnights = (datetime.combine(today + DAY * (n + 1), time(), zone) for n in range(-days, 1))
    return [at.astimezone(UTC).astimezone(zone) for at in midnights]
