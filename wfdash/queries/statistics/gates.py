"""How the questions of workflows are decided: by gate (the step that asks) and by who was asked, over time.

Whole days come from what is added up already, where that agrees with the requests; the latest decisions of the rest of
the time range are read one by one. A chart, its table and the list of decisions say the same. Nothing is distinguished
by person.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Placeholder, compiled_rows, filled
from checkpoints.models import HumanRequest
from checkpoints.models.operations import DecisionRollup
from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import NotFound
from wfdash.queries.requests.decisions import ANSWERED, outcome, reversed_later
from wfdash.queries.statistics.durations import (
    DAY,
    Scope,
    Total,
    asked_of,
    bucket_of,
    hour_at,
    hour_number,
    moment,
    slot_finder,
)
from wfdash.records.statistics import DecisionStatistics, DurationSummary, GateRecord, TimeSlot

# How the requests of a day were decided, by hour: what is stored of it, and what it adds up to. Pure.

REVERSED, RULE = "reversed", "rule"
WAYS = ("approved", "edited", "rejected", "other", "deadline", RULE, REVERSED)
"""How requests are decided, in the order in which their numbers are stored."""
TOGETHER = ""
"""The name under which all workflows are stored together, and all steps of them."""
Gate = tuple[str, str]
"""Workflow and step."""


class DecidedRequest(NamedTuple):
    """How a request was decided, when, after how many seconds (None: by the deadline), and who was asked."""

    workflow: str
    step: str
    outcome: str
    reversed: bool
    at: datetime
    seconds: float | None
    asked: tuple[str, ...]


@dataclass
class Hour:
    """The decisions of an hour: how many in each way, and the seconds that people took."""

    ways: Counter[str] = field(default_factory=Counter)
    took: Total = field(default_factory=Total)

    def add(self, one: DecidedRequest) -> None:
        """Count a decision."""
        self.ways[one.outcome] += 1
        if one.reversed:
            self.ways[REVERSED] += 1
        add_seconds(self.took, one.seconds)


@dataclass
class Day:
    """The decisions of a day. ``steps``: by step, and hour since 1970."""

    steps: defaultdict[str, defaultdict[int, Hour]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Hour))
    )
    asked: defaultdict[str, Total] = field(default_factory=lambda: defaultdict(Total))
    counts: Counter[Gate] = field(default_factory=Counter)
    """How many each step decided; of all workflows together."""


def days_by_workflow(decisions: Iterable[DecidedRequest]) -> dict[str, Day]:
    """Return the decisions of a day by workflow, and under ``TOGETHER`` those of all."""
    days: defaultdict[str, Day] = defaultdict(Day)
    together = days[TOGETHER]
    for one in decisions:
        hour = hour_number(one.at)
        together.counts[one.workflow, one.step] += 1
        each = [(days[one.workflow], one.step)] if one.workflow != TOGETHER else []
        for day, step in ((together, TOGETHER), *each):
            day.steps[step][hour].add(one)
            for label in one.asked if one.seconds is not None else ():
                add_seconds(day.asked[label], one.seconds)
    return dict(days)


def add_seconds(total: Total, seconds: float | None) -> None:
    """Add what a person took to a total; nothing where no one decided."""
    if seconds is not None:
        total.add(bucket_of(seconds), 1, seconds)


def packed(day: Day) -> str:
    """Return a day as JSON."""
    steps = {
        step: {hour: [[one.ways[way] for way in WAYS], _numbers(one.took)] for hour, one in sorted(hours.items())}
        for step, hours in sorted(day.steps.items())
    }
    asked = {label: _numbers(total) for label, total in sorted(day.asked.items())}
    counts = [[*gate, count] for gate, count in sorted(day.counts.items())]
    return json.dumps({"steps": steps, "asked": asked, "counts": counts}, separators=(",", ":"))


@frozen
class Unpacked:
    """What was stored of a day."""

    steps: dict[str, dict[str, Any]]
    asked: dict[str, list[float]]
    counts: list[tuple[str, str, int]]

    def each_hour(self, step: str) -> Iterator[tuple[int, Iterator[tuple[str, int]], list[float]]]:
        """Yield hour, ways with their counts, and the durations for ``join``, of each hour of a step."""
        for hour, (ways, took) in self.steps.get(step, {}).items():
            # Days that were added up before there were rules have no number of them.
            counts = ways if len(ways) == len(WAYS) else [*ways[:-1], 0, ways[-1]]
            yield int(hour), zip(WAYS, counts, strict=True), took

    def count(self, step: str) -> int:
        """Return how many decisions a step had: each was decided in one of the ways, and maybe reversed."""
        return sum(sum(ways[:-1]) for ways, _ in self.steps.get(step, {}).values())


def unpacked(text: str) -> Unpacked:
    """Return what was packed."""
    return Unpacked(**json.loads(text))


def join(total: Total, numbers: list[float]) -> None:
    """Add stored durations to a total."""
    seconds, *pairs = numbers
    total.seconds += seconds
    for bucket, count in zip(pairs[::2], pairs[1::2], strict=True):
        total.add(int(bucket), int(count), 0.0)


def _numbers(total: Total) -> list[float]:
    """Return seconds, bucket, count, bucket, count, ..."""
    return [total.seconds, *(number for pair in sorted(total.buckets.items()) for number in pair)]


MOST_DECISIONS = 20_000
"""The latest decisions that are read one by one; older ones are left out, and that is said."""
MOST_GATES = 12
SUMMARY_DAYS = 30
TREND = WAYS
Key = tuple[str, str]
"""Workflow and step."""


@dataclass
class _Times:
    """What people took: single durations, and histograms where some were added up already."""

    seconds: list[float] = field(default_factory=list)
    total: Total = field(default_factory=Total)

    def merge(self, other: _Times) -> None:
        """Add others."""
        self.seconds += other.seconds
        self.total.join(other.total)

    @property
    def spread(self) -> DurationSummary:
        """Return their summary: exact unless some were added up already."""
        if not self.total.count:
            return spread_of_seconds(self.seconds)
        whole = Total()
        whole.join(self.total)
        for seconds in self.seconds:
            whole.add(bucket_of(seconds), 1, seconds)
        return whole.spread


@dataclass
class _GateSums:
    """The decisions of one gate, or of all: how many in each way, and the times, by slot."""

    ways: Counter[tuple[str, int]] = field(default_factory=Counter)
    times: defaultdict[int, _Times] = field(default_factory=lambda: defaultdict(_Times))

    def add(self, one: DecidedRequest, place: int) -> None:
        """Add a decision."""
        self.ways[one.outcome, place] += 1
        if one.reversed:
            self.ways[REVERSED, place] += 1
        if one.seconds is not None:
            self.times[place].seconds.append(one.seconds)

    def join_day(self, day: Unpacked, step: str, find: Callable[[datetime], int | None]) -> None:
        """Add a step's decisions of a day that was added up."""
        for hour, ways, took in day.each_hour(step):
            place = find(hour_at(hour)) or 0
            for way, count in ways:
                self.ways[way, place] += count
            join(self.times[place].total, took)

    @property
    def spread(self) -> DurationSummary:
        """Return the summary over all slots."""
        whole = _Times()
        for times in self.times.values():
            whole.merge(times)
        return whole.spread

    def by_slot(self, slots: int) -> tuple[DurationSummary, ...]:
        """Return the summary of each slot."""
        return tuple(self.times[place].spread if place in self.times else DurationSummary() for place in range(slots))


@dataclass
class _Found:
    """All decisions of a time range. ``counts``: by gate; ``gates``: those of them that were read one by one."""

    together: _GateSums = field(default_factory=_GateSums)
    counts: Counter[Key] = field(default_factory=Counter)
    gates: defaultdict[Key, _GateSums] = field(default_factory=lambda: defaultdict(_GateSums))
    asked: defaultdict[str, _Times] = field(default_factory=lambda: defaultdict(_Times))

    def add(self, one: DecidedRequest, place: int) -> None:
        """Add a decision."""
        gate = one.workflow, one.step
        self.counts[gate] += 1
        self.gates[gate].add(one, place)
        if one.seconds is not None:
            self.together.times[place].seconds.append(one.seconds)
            for label in one.asked:
                self.asked[label].seconds.append(one.seconds)

    def join_asked(self, day: Unpacked) -> None:
        """Add who was asked on a day that was added up."""
        for label, numbers in day.asked.items():
            join(self.asked[label].total, numbers)

    def largest(self) -> list[Key]:
        """Return the gates with the most decisions."""
        return [gate for gate, _ in sorted(self.counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_GATES]]


def decisions_in(scope: Scope, slots: Sequence[TimeSlot]) -> DecisionStatistics:
    """Return the decisions in these slots: three queries, and one for each stretch of time that is read one by one."""
    groups, find, found = group_names(), slot_finder(slots), _Found()
    days = agreeing_days(slots, hash_of(groups))
    more = _add_single(found, scope, slots, days, groups)
    if scope.every:
        _join_together(found, days, find)
    else:
        _join_workflows(found, scope.mine, days, find)
    largest = found.largest()
    if scope.every and days:
        wanted = frozenset(largest)
        for workflow, day in days_of(Q(workflow__in=sorted({workflow for workflow, _ in wanted})), days):
            for step in day.steps:
                if (workflow, step) in wanted:
                    found.gates[workflow, step].join_day(day, step, find)
    return DecisionStatistics.trusted(
        gates=tuple(_gate(gate, found.gates[gate], len(slots)) for gate in largest),
        asked={label: times.spread for label, times in found.asked.items()},
        times=found.together.by_slot(len(slots)),
        more=more,
    )


def _add_single(
    found: _Found, scope: Scope, slots: Sequence[TimeSlot], days: Mapping[datetime, Unpacked], groups: frozenset[str]
) -> bool:
    """Add the latest decisions of the times that no day has. Returns whether there were more than are read."""
    find, left = slot_finder(slots), MOST_DECISIONS
    for since, until in without(days, slots):
        for one in plain_decisions(scope.mine, since, until, MOST_DECISIONS + 1, groups):
            if not left:
                return True
            left -= 1
            found.add(one, find(one.at) or 0)
    return False


def _join_together(found: _Found, days: Mapping[datetime, Unpacked], find: Callable[[datetime], int | None]) -> None:
    """Add days of all workflows: of gates only how many decisions they had."""
    for day in days.values():
        found.join_asked(day)
        found.together.join_day(day, TOGETHER, find)
        for workflow, step, count in day.counts:
            found.counts[workflow, step] += count


def _join_workflows(
    found: _Found, mine: Q, days: Mapping[datetime, Unpacked], find: Callable[[datetime], int | None]
) -> None:
    """Add days of the workflows that are asked about."""
    for workflow, day in days_of(mine, days) if days else ():
        found.join_asked(day)
        for step in day.steps:
            found.gates[workflow, step].join_day(day, step, find)
            found.together.join_day(day, step, find)
            found.counts[workflow, step] += day.count(step)


def gates_of(viewer: Viewer, workflow: str, days: int = SUMMARY_DAYS) -> tuple[GateRecord, ...]:
    """Return how the questions of a workflow were decided in the last days, in one slot."""
    if not viewer.may("see", workflow):
        raise NotFound("Workflow not found, or you do not have access")
    now = timezone.now()
    whole = TimeSlot.trusted(since=now - timedelta(days=days), until=now + timedelta(minutes=1))
    return decisions_in(Scope(mine=Q(workflow=workflow)), [whole]).gates


def spread_of_seconds(values: Iterable[float]) -> DurationSummary:
    """Return the summary of durations: each quantile is one of them."""
    known = sorted(values)
    if not known:
        return DurationSummary()
    at = {part: known[max(math.ceil(part * len(known)) - 1, 0)] for part in (0.5, 0.95)}
    return DurationSummary(count=len(known), p50=at[0.5], p95=at[0.95], mean=sum(known) / len(known))


def _gate(gate: Key, sums: _GateSums, slots: int) -> GateRecord:
    return GateRecord.trusted(
        workflow=gate[0],
        step=gate[1],
        counts={name: tuple(sums.ways[name, place] for place in range(slots)) for name in TREND},
        spread=sums.spread,
        times=sums.by_slot(slots),
    )


# Days of decisions that are added up already: which of them agree with the requests, and which are to be made.

KEPT_DAYS = 31
"""How many days are kept: the longest range of the statistics, and what an hour's offset adds to it."""
CLOSED = timedelta(minutes=10)
"""How long after its end a day is made: answers that are being committed then belong to it."""
TABLE, REQUESTS = DecisionRollup._meta.db_table, HumanRequest._meta.db_table
ANSWERED_THEN = (
    f"(SELECT COUNT(*) FROM {REQUESTS} h"  # noqa: S608
    f" WHERE h.answered IS NOT NULL AND h.answered >= d.since AND h.answered < d.until)"
)
AGREEING = (
    f"SELECT d.since, d.data FROM {TABLE} d WHERE d.workflow = '{TOGETHER}' AND d.since >= %s AND d.until <= %s"  # noqa: S608
    f" AND d.groups = %s AND d.count = {ANSWERED_THEN}"
)


class Span(NamedTuple):
    """From when (inclusive) until when (exclusive)."""

    since: datetime
    until: datetime


@frozen
class DayToMake:
    """A day's decisions as they are to be stored: by workflow, and under ``TOGETHER`` of all."""

    since: datetime
    until: datetime
    count: int
    reversed: int
    groups: str
    data: dict[str, str]


def agreeing_days(slots: Sequence[TimeSlot], groups: str) -> dict[datetime, Unpacked]:
    """Return the days of these slots that agree with the requests: their beginning -> all workflows (one query).

    None where slots do not end at whole hours of UTC: a day is added up by those.
    """
    if any(slot.since.astimezone(UTC).minute or slot.since.second for slot in slots[1:]):
        return {}
    field = HumanRequest._meta.get_field("answered")
    edges = [field.get_db_prep_value(at, connection()) for at in (slots[0].since, slots[-1].until)]
    with connection().cursor() as cursor:
        cursor.execute(AGREEING, [*edges, groups])
        return {moment(since): unpacked(data) for since, data in cursor.fetchall()}


def days_of(wanted: Q, days: Iterable[datetime]) -> Iterator[tuple[str, Unpacked]]:
    """Yield workflow and decisions of each of these days, of the workflows that are wanted (one query)."""
    rows = DecisionRollup.objects.filter(wanted, since__in=list(days)).exclude(workflow=TOGETHER)
    for workflow, data in rows.values_list("workflow", "data"):
        yield workflow, unpacked(data)


def without(days: Iterable[datetime], slots: Sequence[TimeSlot]) -> list[Span]:
    """Return the times of the slots that lie in none of these days, the latest first."""
    spans, until = list[Span](), slots[-1].until
    for since in sorted(days, reverse=True):
        if since + DAY < until:
            spans.append(Span(since + DAY, until))
        until = since
    return [*spans, Span(slots[0].since, until)] if slots[0].since < until else spans


def group_names() -> frozenset[str]:
    """Return the names of all groups (one query)."""
    return frozenset(Group.objects.values_list("name", flat=True))


def hash_of(groups: Iterable[str]) -> str:
    """Return the names of groups as a hash."""
    return sha256("\n".join(sorted(groups)).encode()).hexdigest()


def next_day_to_make(now: datetime) -> DayToMake | None:
    """Return the latest day that is to be made (again), None if all agree.

    What was reversed is counted only once all others agree: one query for each day.
    """
    groups = group_names()
    days, hashed = _closed_days(now), hash_of(groups)
    made = dict(
        DecisionRollup.objects.filter(workflow=TOGETHER, since__gte=days[-1].since).values_list("since", "reversed")
    )
    agreeing = agreeing_days([TimeSlot.trusted(since=days[-1].since, until=days[0].until)], hashed)
    for day in days:
        if day.since not in agreeing:
            return _made(day, groups)
    return next((_made(day, groups) for day in days if _reversed(day) != made.get(day.since)), None)


def _closed_days(now: datetime) -> list[Span]:
    end = (now - CLOSED).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return [Span(end - DAY * (n + 1), end - DAY * n) for n in range(KEPT_DAYS)]


def _answered(day: Span) -> Any:
    return HumanRequest.objects.filter(answered__gte=day.since, answered__lt=day.until).order_by()


def _reversed(day: Span) -> int:
    found: int = _answered(day).filter(ANSWERED, reversed_later()).count()
    return found


def _made(day: Span, groups: frozenset[str]) -> DayToMake:
    # Counted before they are read: an answer that comes in between makes the day disagree, and it is made again.
    count, back = _answered(day).count(), _reversed(day)
    found = days_by_workflow(plain_decisions(Q(), day.since, day.until, None, groups))
    return DayToMake(
        since=day.since,
        until=day.until,
        count=count,
        reversed=back,
        groups=hash_of(groups),
        data={workflow: packed(one) for workflow, one in found.items()},
    )


# Decisions read one by one, as the database has them: to convert all values of 20,000 rows takes longer than that.

DEADLINE = "deadline"
COLUMNS = ("workflow", "step", "outcome", "reversed", "created", "answered", "answer__at", "by")
_ANSWERED: Any = HumanRequest._meta.get_field("answered")


def plain_decisions(
    mine: Q, since: datetime, until: datetime, most: int | None, groups: frozenset[str]
) -> Iterator[DecidedRequest]:
    """Yield the decisions of a time, the latest first, at most so many (one query)."""
    statement = _decisions(mine, most)
    if not statement.sql:
        return
    used = connection()
    with used.cursor() as cursor:
        cursor.execute(statement.sql, filled(statement.params, {"since": since, "until": until}, used))
        rows = cursor.fetchall()
    labels = _labels(groups)
    for workflow, step, how, back, created, answered, given, by in rows:
        decided, seconds = moment(answered), None
        if how not in (DEADLINE, RULE):
            # By when the person gave it, not by when it took effect.
            took = (moment(given) if given else decided) - moment(created)
            seconds = max(took.total_seconds(), 0.0)
        yield DecidedRequest(workflow, step, how, bool(back), decided, seconds, labels(by))


@compiled_rows
def _decisions(mine: Q, most: int | None) -> QuerySet[Any, Any]:
    within = Q(answered__gte=Placeholder("since", _ANSWERED)) & Q(answered__lt=Placeholder("until", _ANSWERED))
    rows = HumanRequest.objects.filter(ANSWERED, mine, within)
    named = rows.annotate(outcome=outcome(), reversed=reversed_later()).order_by("-answered")
    return named.values_list(*COLUMNS)[:most]


def _labels(groups: frozenset[str]) -> Callable[[str], tuple[str, ...]]:
    @cache
    def labels(by: str) -> tuple[str, ...]:
        return asked_of(json.loads(by), groups)

    return labels
