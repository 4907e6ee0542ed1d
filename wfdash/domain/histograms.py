"""Names of measures, and histograms that can be added up. Pure.

A bucket contains the durations between two powers of ``GROWTH``, so a value read from a histogram is off by less than a
twentieth, however many hours were added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

GROWTH = 1.1
LEAST = 1e-4
"""Seconds; anything shorter counts as this."""
MOST = 1e9
LOWEST = math.ceil(math.log(LEAST) / math.log(GROWTH))
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
    if seconds <= LEAST:
        return LOWEST
    # Logarithms are not exact at the edges: a duration belongs to the bucket whose end is not below it.
    bucket = math.ceil(math.log(min(seconds, MOST)) / math.log(GROWTH) - 1e-9)
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


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A summary of durations, in seconds. ``p50``: half of them took no longer."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    mean: float | None = None


def spread_of(counts: Mapping[int, int], total: float) -> Spread:
    """Return the summary of a histogram whose durations sum up to ``total``."""
    count = sum(counts.values())
    if not count:
        return Spread()
    return Spread(count=count, p50=quantile(counts, 0.5), p95=quantile(counts, 0.95), mean=total / count)
