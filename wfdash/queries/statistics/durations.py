"""How long runs, steps and queues took, and how often steps failed: histograms that can be added up, from roll-ups.

A bucket contains the durations between two powers of ``GROWTH``, so a value read from a histogram is off by less than a
twentieth, however many hours were added up.

A roll-up is what was measured in a span of hours. Spans are multiples of each other and begin at multiples of
themselves, so that few of them together cover everything since any hour (``rollups_since``). Where roll-ups lack
something that the tallies have (see ``wfdash.actions.statistics``), durations are read from the tallies: slower, with
the same result.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

from django.db.models import Exists, Q, QuerySet, Subquery, Sum

from checkpoints.database.compiled import compiled
from checkpoints.database.high_water_mark import ROLLUPS, STATISTICS
from checkpoints.models import Tally, TallyMark, TallyRollup
from checkpoints.records import frozen
from checkpoints.rules import cost_of, time_or_none
from wfdash.records.statistics import DurationSummary, TimeSlot, UsageRecord, UsageStatistics

GROWTH = 1.1
LEAST_SECONDS = 1e-4
"""Seconds; anything shorter counts as this."""
MOST_SECONDS = 1e9
LOWEST = math.ceil(math.log(LEAST_SECONDS) / math.log(GROWTH))
ALL_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The hour of the row with the totals of all time: it only grows."""


class Measure(StrEnum):
    """What is measured. Durations are in seconds; the others count occurrences in bucket 0."""

    STARTED = "started"
    """``label``: ``fork`` where it started at another run's checkpoint."""
    COMPLETED = "completed"
    FAILED = "failed"
    """``label``: the class of the error."""
    CANCELLED = "cancelled"
    RECOVERED = "recovered"
    STEP_FAILED = "step_failed"
    STEP_RETRIED = "step_retried"
    LAPSED = "lapsed"
    """Requests that were answered by a deadline."""
    RUN = "run"
    """From its creation to its completion, without the time in which it had failed or was paused."""
    STEP = "step"
    """From the last start of a step to its return."""
    DECISION = "decision"
    """From the opening of a request to its decision, by gate (the step that asks)."""
    ASKED = "asked"
    """The same by who was asked; ``label``: see ``asked_of``."""
    USAGE = "usage"
    """What models were used for; ``label``: the model, as for the next four."""
    TOKENS_IN = "input_tokens"
    TOKENS_OUT = "output_tokens"
    COST = "cost"
    """Billionths of the currency."""
    UNPRICED = "unpriced"
    """Tokens whose cost is unknown."""
    QUEUE = "queue"
    """From a run's creation to its start by a worker."""


ROLLED_UP = (Measure.RUN, Measure.STEP, Measure.QUEUE, Measure.STEP_FAILED, Measure.STEP_RETRIED)
"""What statistics show over time."""
USED = (Measure.USAGE, Measure.TOKENS_IN, Measure.TOKENS_OUT, Measure.COST, Measure.UNPRICED)
"""What models used, in the order in which ``UsageRecord`` has it."""
SIZED = frozenset({Measure.RUN, Measure.STEP, Measure.DECISION, Measure.ASKED, Measure.QUEUE})
ANYONE = "anybody"
REQUESTER = "requester"
NAMED = "named"
GROUP = "group:"


def asked_of(by: Sequence[str], groups: Iterable[str]) -> tuple[str, ...]:
    """Return who was asked, as labels: ``group:finance``, ``requester``, ``named`` (people), or ``anybody``.

    People are not distinguished: these are metrics of a workflow, not of a person.
    """
    if not by:
        return (ANYONE,)
    known = frozenset(groups)
    labels = (GROUP + name if name in known else REQUESTER if name == REQUESTER else NAMED for name in by)
    return tuple(dict.fromkeys(labels))


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration; ``ValueError`` for NaN."""
    if math.isnan(seconds):
        raise ValueError("a duration must be a number of seconds")
    if seconds <= LEAST_SECONDS:
        return LOWEST
    # Logarithms are not exact at the edges: a duration belongs to the bucket whose end is not below it.
    bucket = math.ceil(math.log(min(seconds, MOST_SECONDS)) / math.log(GROWTH) - 1e-9)
    return max(bucket, LOWEST)


def value_of(bucket: int) -> float:
    """Return the seconds that represent a bucket: its durations differ from them by at most a twentieth."""
    return float(2 * GROWTH**bucket / (GROWTH + 1))


def quantile(counts: Mapping[int, int], part: float) -> float | None:
    """Return the duration that this fraction (0..1) of them does not exceed; None where nothing was counted."""
    total = sum(counts.values())
    if not total:
        return None
    rank, seen = max(1, math.ceil(part * total)), 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return value_of(bucket)
    raise AssertionError("unreachable")


def up_to(counts: Mapping[int, int], bounds: Sequence[float]) -> list[int]:
    """Return how many durations are at most each of the bounds, to a tenth of the bound."""
    return [sum(count for bucket, count in counts.items() if value_of(bucket) <= bound) for bound in bounds]


def spread_of(counts: Mapping[int, int], total: float) -> DurationSummary:
    """Return the summary of a histogram whose durations sum up to ``total``."""
    count = sum(counts.values())
    if not count:
        return DurationSummary()
    return DurationSummary.trusted(
        count=count, p50=quantile(counts, 0.5), p95=quantile(counts, 0.95), mean=total / count
    )


@dataclass
class Total:
    """A total: how often, how long in all (seconds), and by bucket."""

    count: int = 0
    seconds: float = 0.0
    buckets: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, bucket: int, count: int, seconds: float) -> None:
        """Add a row of metrics."""
        self.count += count
        self.seconds += seconds
        self.buckets[bucket] += count

    def join(self, other: Total) -> None:
        """Add another total."""
        for bucket, count in other.buckets.items():
            self.add(bucket, count, 0.0)
        self.seconds += other.seconds

    @property
    def spread(self) -> DurationSummary:
        """Return the summary of its durations."""
        return spread_of(self.buckets, self.seconds)


SPANS = (1, 6, 24, 96, 384)
"""Hours of a roll-up."""
DAY_SPAN = 24
RolledUp = dict[tuple[str, str], Total]
"""Measure and step -> what was measured in the span."""


def hour_number(at: datetime) -> int:
    """Return the number of the hour that a time lies in: how many there were since ``ALL_TIME``."""
    return (at - ALL_TIME) // timedelta(hours=1)


def hour_at(number: int) -> datetime:
    """Return when an hour begins."""
    return ALL_TIME + timedelta(hours=number)


def rollups_with(hour: int) -> tuple[tuple[int, int], ...]:
    """Return span and first hour of each roll-up that has an hour."""
    return tuple((span, hour - hour % span) for span in SPANS)


def rollups_since(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Return span and first hour of the fewest roll-ups that have all hours from the first to at least the last, each
    once, and none before.
    """
    while first <= last:
        span = max(span for span in SPANS if not first % span)
        yield span, first
        first += span


def packed(rolled: RolledUp) -> str:
    """Return a roll-up as JSON: measure -> step -> seconds, bucket, count, bucket, count, ..."""
    found: dict[str, dict[str, list[float]]] = {}
    for (measure, step), total in sorted(rolled.items()):
        pairs = [number for pair in sorted(total.buckets.items()) for number in pair]
        found.setdefault(measure, {})[step] = [total.seconds, *pairs]
    return json.dumps(found, separators=(",", ":"))


def unpack(text: str, rolled: RolledUp) -> None:
    """Add what was packed to a roll-up."""
    for measure, steps in json.loads(text).items():
        for step, (seconds, *pairs) in steps.items():
            total = rolled.setdefault((measure, step), Total())
            total.seconds += seconds
            buckets = total.buckets
            for bucket, count in zip(pairs[::2], pairs[1::2], strict=True):
                buckets[bucket] += count
                total.count += count


COURSES = (Measure.RUN, Measure.STEP)
HOURS_KEPT = timedelta(days=3)
"""Tallies that are older are by day: ``wfdash.actions.statistics`` merges their hours."""
Step = tuple[str, str]
"""Workflow and step; no step where a run is measured."""
Totals = dict[Measure, dict[Step, Total]]
Part = tuple[int, int]
"""Span and first hour."""


@frozen
class Durations:
    """What was measured in a time range: in all, by measure; and by slot, of runs and steps."""

    totals: Totals
    courses: dict[Measure, tuple[DurationSummary, ...]]


@frozen
class Scope:
    """The workflows that are asked about. ``every``: all there are."""

    mine: Q
    every: bool = False


@frozen
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
    same = TallyMark.objects.filter(pk=ROLLUPS, event=Subquery(counted[:1]), at__lte=hour_at(hours.first))
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


def runs_by_hour(mine: Q, now: datetime) -> defaultdict[str, dict[str, list[int]]]:
    """Return workflow -> ``started`` and ``failed`` -> how many of its runs did in each of the last 24 hours, the
    oldest first, from the tallies (one query).
    """
    found = defaultdict[str, dict[str, list[int]]](
        lambda: {measure: [0] * HOURS_A_DAY for measure in (Measure.STARTED, Measure.FAILED)}
    )
    last = hour_number(now)
    within = Q(hour__gt=hour_at(last - HOURS_A_DAY), hour__lte=hour_at(last))
    rows = Tally.objects.filter(mine, within, measure__in=(Measure.STARTED, Measure.FAILED)).order_by()
    for workflow, measure, at, count in rows.values_list("workflow", "measure", "hour").annotate(Sum("count")):
        found[workflow][measure][hour_number(at) - last - 1] += int(count)
    return found


# What models used, from the tallies: a few rows for each hour, workflow and model.

MOST_USED = 20
"""Models, and workflows, that are listed."""


def usage_in(scope: Scope, slots: Sequence[TimeSlot], now: datetime, currency: str) -> UsageStatistics:
    """Return what models used in these slots, by model, by workflow and by slot (two queries)."""
    hours, find = _hours(slots, now), slot_finder(slots)
    within = Q(hour__gte=hour_at(hours.first), hour__lt=hour_at(hours.last + 1))
    rows = Tally.objects.filter(scope.mine, within, measure__in=USED).order_by()
    total, models, workflows = (
        Counter[str](),
        defaultdict[str, Counter[str]](Counter),
        defaultdict[str, Counter[str]](Counter),
    )
    for workflow, model, measure, count in rows.values_list("workflow", "label", "measure").annotate(Sum("count")):
        for one in (total, models[model], workflows[workflow]):
            one[measure] += int(count)
    times = [Counter[str]() for _ in slots]
    for at, measure, count in rows.values_list("hour", "measure").annotate(Sum("count")) if total else ():
        whole_day = hour_number(at) < hours.merged and not hour_number(at) % DAY_SPAN
        place = find(at + HOUR * (DAY_SPAN if whole_day else 1) / 2)
        if place is not None:
            times[place][measure] += int(count)
    return UsageStatistics.trusted(
        currency=currency,
        total=_used("", total),
        models=_most_used(models),
        workflows=_most_used(workflows),
        times=tuple(_used("", one) for one in times),
    )


def _most_used(found: Mapping[str, Counter[str]]) -> tuple[UsageRecord, ...]:
    def rank(name: str) -> tuple[int, int, str]:
        counts = found[name]
        return -counts[Measure.COST], -counts[Measure.TOKENS_IN] - counts[Measure.TOKENS_OUT], name

    return tuple(_used(name, found[name]) for name in sorted(found, key=rank)[:MOST_USED])


def _used(name: str, counts: Counter[str]) -> UsageRecord:
    uses, tokens_in, tokens_out, nanos, unpriced = (counts[measure] for measure in USED)
    return UsageRecord.trusted(
        name=name,
        uses=uses,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost=cost_of(nanos, unpriced),
        unpriced=unpriced,
    )


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
    at = (time_or_none(datetime.fromisoformat, stored) or ALL_TIME) if isinstance(stored, str) else stored
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
