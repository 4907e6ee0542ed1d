"""How the questions of workflows are decided: by gate (the step that asks) and by who was asked, over time.

Whole days come from what is added up already, where that agrees with the requests; the latest decisions of the rest of
the time range are read one by one. A chart, its table and the list of decisions say the same. Nothing is distinguished
by person.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.domain.histograms import Total, bucket_of, hour_at
from wfdash.errors import NotFound
from wfdash.queries.statistics.day_figures import REVERSED, TOGETHER, WAYS, DecidedRequest, Unpacked, join
from wfdash.queries.statistics.decision_days import agreeing_days, days_of, group_names, hash_of, without
from wfdash.queries.statistics.durations import Scope
from wfdash.queries.statistics.raw_decisions import plain_decisions
from wfdash.queries.statistics.slots import slot_finder
from wfdash.records.statistics import DecisionStatistics, DurationSummary, GateRecord, TimeSlot

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
