"""Names of measures, histograms that can be added up, and the roll-ups that they are added up to. Pure.

A bucket contains the durations between two powers of ``GROWTH``, so a value read from a histogram is off by less than a
twentieth, however many hours were added up.

A roll-up is what was measured in a span of hours. Spans are multiples of each other and begin at multiples of
themselves, so that few of them together cover everything since any hour (``rollups_since``).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from wfdash.records.statistics import DurationSummary

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
    """From its creation to its completion."""
    STEP = "step"
    """From the last start of a step to its return."""
    DECISION = "decision"
    """From the opening of a request to its decision, by gate (the step that asks)."""
    ASKED = "asked"
    """The same by who was asked; ``label``: see ``asked_of``."""
    QUEUE = "queue"
    """From a run's creation to its start by a worker."""


ROLLED_UP = (Measure.RUN, Measure.STEP, Measure.QUEUE, Measure.STEP_FAILED, Measure.STEP_RETRIED)
"""What statistics show over time."""
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
