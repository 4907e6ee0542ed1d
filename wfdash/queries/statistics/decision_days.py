"""Days of decisions that are added up already: which of them agree with the requests, and which are to be made.

A day (UTC) agrees while as many requests were answered on it as when it was made: one that comes late or is removed
changes that number. What was reversed since is looked for by the worker that leads (``next_day_to_make``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.db.models import Q

from checkpoints.database.alias import connection
from checkpoints.models import HumanRequest
from checkpoints.models.operations import DecisionRollup
from wfdash.queries.requests.decision_filter import ANSWERED, reversed_later
from wfdash.queries.statistics.day_figures import TOGETHER, Unpacked, days_by_workflow, packed, unpacked
from wfdash.queries.statistics.raw_decisions import plain_decisions
from wfdash.queries.statistics.slots import DAY, moment
from wfdash.records.statistics import TimeSlot

DAYS = 31
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


@dataclass(frozen=True, kw_only=True)
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
    return [Span(end - DAY * (n + 1), end - DAY * n) for n in range(DAYS)]


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
