"""How the requests of a day were decided, by hour: what is stored of it, and what it adds up to. Pure.

Of each workflow: by step and hour how many were decided in each way, and how long people took; and how long they took
by who was asked. Of all workflows together the same without steps, and how many decisions each step had.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from wfdash.domain.histograms import Total, bucket_of, hour_number

REVERSED = "reversed"
WAYS = ("approved", "edited", "rejected", "other", "deadline", REVERSED)
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


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """What was stored of a day."""

    steps: dict[str, dict[str, Any]]
    asked: dict[str, list[float]]
    counts: list[tuple[str, str, int]]

    def each_hour(self, step: str) -> Iterator[tuple[int, Iterator[tuple[str, int]], list[float]]]:
        """Yield hour, ways with their counts, and the durations for ``join``, of each hour of a step."""
        for hour, (ways, took) in self.steps.get(step, {}).items():
            yield int(hour), zip(WAYS, ways, strict=True), took

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
