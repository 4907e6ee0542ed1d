"""Recent statistics by workflow, step, gate and group: from the stored metrics, however many runs there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from checkpoints.models import FOR_PEOPLE, OPEN, HumanRequest, Schedule, Tally
from checkpoints.records import Status
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.domain.histograms import ALL_TIME, Measure, Spread, spread_of
from wfdash.errors import NotFound
from wfdash.queries.statistics.gauges import Total, count_by_status

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OUTCOMES = (Measure.STARTED, Measure.COMPLETED, Measure.FAILED, Measure.CANCELLED)
DURATIONS = (Measure.RUN, Measure.STEP, Measure.DECISION)
MOST = 10
"""Rows per list."""
OLDEST = 8
LATE = timedelta(seconds=60)
Key = tuple[str, str, str]
"""Workflow, step, label."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """A duration's distribution, and how often it went otherwise."""

    workflow: str = ""
    step: str = ""
    label: str = ""
    spread: Spread
    failed: int = 0
    retried: int = 0
    lapsed: int = 0


@dataclass(frozen=True, kw_only=True)
class FailureReason:
    """Why runs failed: the class of the error, empty where it is unknown."""

    workflow: str
    error: str
    count: int


@dataclass(frozen=True, kw_only=True)
class WaitingRequest:
    """A request that waits for people."""

    id: str
    subject: str
    workflow: str
    step: str
    created: datetime
    due: datetime | None


@dataclass(frozen=True, kw_only=True)
class LateSchedule:
    """A schedule that should have started a run by now."""

    name: str
    workflow: str
    next_at: datetime


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of a time range, and current counts. Slots are hours or days (UTC), oldest first."""

    workflow: str
    workflows: tuple[str, ...]
    slots: tuple[datetime, ...]
    slot: timedelta
    states: dict[Status, int]
    flow: dict[Measure, tuple[int, ...]]
    courses: dict[Measure, tuple[Spread, ...]]
    runs: tuple[Timing, ...]
    steps: tuple[Timing, ...]
    """The slowest by the 95th percentile."""
    gates: tuple[Timing, ...]
    people: tuple[Timing, ...]
    """By who was asked (``label``)."""
    queue: Spread
    reasons: tuple[FailureReason, ...]
    oldest: tuple[WaitingRequest, ...]
    waiting: int
    late: tuple[LateSchedule, ...]

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to show."""
        happened = any(map(any, self.flow.values())) or self.runs or self.steps or self.gates
        return not (self.states or self.waiting or happened)


def statistics(viewer: Viewer, days: int = 7, workflow: str = "") -> Statistics:
    """Return the statistics of the last days (1: of the last 24 hours) of what this person may see (eight queries).

    ``NotFound`` for a workflow they may not see.
    """
    if workflow and not viewer.may("see", workflow):
        raise NotFound("Workflow not found, or you do not have access")
    slot = HOUR if days <= 1 else DAY
    slots = _slots(timezone.now(), slot, 24 if days <= 1 else days)
    mine = Q(workflow=workflow) if workflow else viewer.scope("see")
    rows = Tally.objects.filter(mine, measure__in=list(Measure), hour__gte=slots[0]).exclude(hour=ALL_TIME).order_by()
    totals, per_slot = _totals(rows), _per_slot(rows, slots, slot)
    states: defaultdict[Status, int] = defaultdict(int)
    for (_, status), count in count_by_status(viewer, workflow).items():
        states[status] += count
    open_requests = HumanRequest.objects.filter(mine, OPEN & FOR_PEOPLE)
    return Statistics(
        workflow=workflow,
        workflows=_workflows(viewer, totals),
        slots=slots,
        slot=slot,
        states=dict(states),
        flow={measure: tuple(per_slot[measure, at].count for at in slots) for measure in OUTCOMES},
        courses={measure: tuple(_spread(per_slot[measure, at]) for at in slots) for measure in DURATIONS},
        runs=_timed(totals, Measure.RUN, _by_size),
        steps=_timed(totals, Measure.STEP, _by_size),
        gates=_timed(totals, Measure.DECISION, _by_count),
        people=_people(totals),
        queue=_spread(_sum(totals[Measure.QUEUE].values())),
        reasons=_reasons(totals),
        oldest=oldest_requests(open_requests),
        waiting=open_requests.count(),
        late=late_schedules(mine),
    )


def _slots(now: datetime, slot: timedelta, count: int) -> tuple[datetime, ...]:
    last = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last = last if slot == HOUR else last.replace(hour=0)
    return tuple(last - slot * back for back in reversed(range(count)))


def _totals(rows: QuerySet[Tally]) -> defaultdict[Measure, defaultdict[Key, Total]]:
    """Return the sums of the whole range."""
    totals: defaultdict[Measure, defaultdict[Key, Total]] = defaultdict(lambda: defaultdict(Total))
    groups = rows.values_list("measure", "workflow", "step", "label", "bucket")
    for measure, workflow, step, label, bucket, count, seconds in groups.annotate(Sum("count"), Sum("total")):
        totals[Measure(measure)][workflow, step, label].add(bucket, count, seconds)
    return totals


def _per_slot(
    rows: QuerySet[Tally], slots: tuple[datetime, ...], slot: timedelta
) -> defaultdict[tuple[Measure, datetime], Total]:
    """Return the sums of each slot, over workflows and steps."""
    found: defaultdict[tuple[Measure, datetime], Total] = defaultdict(Total)
    groups = rows.filter(measure__in=[*OUTCOMES, *DURATIONS]).values_list("measure", "hour", "bucket")
    for measure, hour, bucket, count, seconds in groups.annotate(Sum("count"), Sum("total")):
        place = min((hour - slots[0]) // slot, len(slots) - 1)
        found[Measure(measure), slots[place]].add(bucket, count, seconds)
    return found


def _spread(total: Total) -> Spread:
    return spread_of(total.buckets, total.seconds)


def _sum(totals: Iterable[Total]) -> Total:
    whole = Total()
    for total in totals:
        whole.join(total)
    return whole


def _by_size(row: Timing) -> float:
    return -(row.spread.p95 or 0.0)


def _by_count(row: Timing) -> float:
    return -(row.spread.count + row.lapsed)


def _timed(
    totals: defaultdict[Measure, defaultdict[Key, Total]], measure: Measure, order: Callable[[Timing], float]
) -> tuple[Timing, ...]:
    lapsed = totals[Measure.LAPSED] if measure is Measure.DECISION else {}
    rows = [
        Timing(
            workflow=key[0],
            step=key[1],
            spread=_spread(totals[measure].get(key, Total())),
            failed=totals[Measure.STEP_FAILED].get(key, Total()).count,
            retried=totals[Measure.STEP_RETRIED].get(key, Total()).count,
            lapsed=lapsed.get(key, Total()).count,
        )
        for key in {**totals[measure], **lapsed}
    ]
    return tuple(sorted(rows, key=lambda row: (order(row), row.workflow, row.step))[:MOST])


def _people(totals: defaultdict[Measure, defaultdict[Key, Total]]) -> tuple[Timing, ...]:
    asked: defaultdict[str, Total] = defaultdict(Total)
    for (_, _, label), total in totals[Measure.ASKED].items():
        asked[label].join(total)
    rows = [Timing(label=label, spread=_spread(total)) for label, total in asked.items()]
    return tuple(sorted(rows, key=lambda row: (_by_count(row), row.label))[:MOST])


def _reasons(totals: defaultdict[Measure, defaultdict[Key, Total]]) -> tuple[FailureReason, ...]:
    rows = [
        FailureReason(workflow=workflow, error=label, count=total.count)
        for (workflow, _, label), total in totals[Measure.FAILED].items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.workflow, row.error))[:MOST])


def oldest_requests(rows: QuerySet[HumanRequest]) -> tuple[WaitingRequest, ...]:
    """Return the oldest of these requests, at most ``OLDEST``."""
    found = rows.order_by("created", "id").values_list("id", "subject", "workflow", "step", "created", "due")[:OLDEST]
    return tuple(
        WaitingRequest(id=id_, subject=subject or "", workflow=workflow, step=step, created=created, due=due)
        for id_, subject, workflow, step, created, due in found
    )


def late_schedules(mine: Q) -> tuple[LateSchedule, ...]:
    """Return the schedules that should have started a run by now, at most ``MOST``."""
    rows = Schedule.objects.filter(mine, next_at__lt=timezone.now() - LATE).order_by("next_at")
    return tuple(
        LateSchedule(name=name, workflow=workflow, next_at=at)
        for name, workflow, at in rows.values_list("name", "workflow", "next_at")[:MOST]
        if at is not None
    )


def _workflows(viewer: Viewer, totals: dict[Measure, defaultdict[Key, Total]]) -> tuple[str, ...]:
    """Return the workflows to choose from: those that are loaded, and those with metrics."""
    loaded = {entry.name for entry in catalog.entries() if viewer.may("see", entry.name)}
    return tuple(sorted(loaded | {key[0] for rows in totals.values() for key in rows}))
