"""Recent statistics by workflow, step, gate and group.

Runs and decisions are counted as their lists find them; durations of runs and steps come from the stored metrics,
however many runs there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.compiled import statement_of
from checkpoints.models import FOR_PEOPLE, OPEN, HumanRequest, Run, RunFact, Schedule
from checkpoints.records import Phase
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import NotFound
from wfdash.domain.labels import visible
from wfdash.domain.search_attributes import ERROR
from wfdash.engines import catalog
from wfdash.queries.runs.listing import failures_of, run_rows
from wfdash.queries.statistics.durations import (
    Measure,
    Scope,
    Step,
    Total,
    Totals,
    durations_in,
    moment,
    slots_of,
    usage_in,
)
from wfdash.queries.statistics.gates import decisions_in
from wfdash.queries.statistics.gauges import count_by_workflow, count_ended, count_started, count_statuses
from wfdash.records.statistics import (
    DurationSummary,
    ErrorGroupRecord,
    LateScheduleRecord,
    StatisticsRecord,
    TimingRecord,
    WaitingRequestRecord,
)

MOST_FAILED = 5_000
"""Failed runs that are grouped, the latest ones."""
MOST_GROUPS = 12
GROUPED = (
    f"SELECT r.workflow, f.text, COUNT(DISTINCT r.id), MIN(r.finished), MAX(r.finished), MAX(r.id),"  # noqa: S608
    f" SUBSTR(CAST(r.finished AS VARCHAR(32)), 1, %s) AS slot"
    f" FROM ({{latest}}) AS r LEFT JOIN {RunFact._meta.db_table} f"
    f" ON f.run_id = r.id AND f.name = '{ERROR}' AND f.text NOT LIKE '%%.%%'"
    f" GROUP BY r.workflow, f.text, slot"
)
"""A class with a module is stored twice, with and without it: the latter counts. ``slot``: the beginning of a time."""


class ErrorGroup(ErrorGroupRecord):
    """Failed runs of one workflow with the same class of error. ``error``: as in filters, empty where unknown."""

    failure: tuple[str, str] = ("", "")
    """The latest error's class and message, as far as the viewer may read them."""
    times: Mapping[str, int] = {}
    """``2026-11-28 14`` (UTC) -> how many; of days without the hour."""

    @property
    def called(self) -> str:
        """Return the class as the error itself names it, without its module; empty where unknown."""
        kind = self.failure[0]
        return kind.rpartition(".")[2] if self.error and kind.lower().endswith(self.error) else self.error

    @property
    def message(self) -> str:
        """Return the latest message, as far as the viewer may read it."""
        return self.failure[1]


OUTCOMES = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)
STARTED = "started"
MAX_ROWS = 10
"""Rows per list."""
MAX_OLDEST_REQUESTS = 8
LATE_AFTER = timedelta(seconds=60)


class Statistics(StatisticsRecord):
    """Statistics of a time range, and current counts. Slots are hours or days in the reader's zone, oldest first."""

    failures: tuple[ErrorGroup, ...]

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to show."""
        happened = (
            any(map(any, self.flow.values())) or self.runs or self.steps or self.decisions.gates or self.usage.models
        )
        return not (self.states or self.waiting or happened)

    @property
    def failures_more(self) -> bool:
        """Return whether there were more failures than were grouped."""
        return sum(self.flow[Phase.FAILED]) > MOST_FAILED


def read_statistics(
    viewer: Viewer, days: int = 7, workflow: str = "", zone: tzinfo = UTC, *, examples: bool = True
) -> Statistics:
    """Return the statistics of the last days (1: of the last 24 hours) of what this person may see (14 queries).

    ``examples``: with a run of each group of failures. ``NotFound`` for a workflow they may not see.
    """
    if workflow and not viewer.may("see", workflow):
        raise NotFound("Workflow not found, or you do not have access")
    now = timezone.now()
    slots = slots_of(now, days, zone)
    mine = Q(workflow=workflow) if workflow else viewer.scope("see")
    every = not workflow and viewer.may("see", EVERY)
    scope = Scope(mine=mine, every=every)
    measured = durations_in(scope, slots, now)
    totals, ended = measured.totals, count_ended(viewer, workflow, slots)
    completed = partial(count_by_workflow, viewer, workflow, Phase.COMPLETED, slots)
    asked = HumanRequest.objects.filter(mine, OPEN & FOR_PEOPLE)
    decisions = decisions_in(scope, slots)
    return Statistics.trusted(
        workflow=workflow,
        workflows=_workflows(viewer, (key[0] for rows in totals.values() for key in rows)),
        slots=slots,
        hourly=days <= 1,
        states=count_statuses(viewer, workflow),
        flow={STARTED: count_started(viewer, workflow, slots)} | {phase.value: ended[phase] for phase in OUTCOMES},
        courses=measured.courses | {Measure.DECISION: decisions.times},
        runs=_runs(totals[Measure.RUN], sum(ended[Phase.COMPLETED]), completed),
        steps=_steps(totals),
        decisions=decisions,
        usage=usage_in(scope, slots, now, settings.WFDASH_CURRENCY),
        queue=_sum(totals[Measure.QUEUE].values()).spread,
        failures=error_groups(viewer, failed_runs(mine, slots[0].since, slots[-1].until), MAX_ROWS, examples=examples),
        oldest=oldest_requests(asked),
        waiting=asked.count(),
        late=late_schedules(mine),
    )


def _sum(totals: Iterable[Total]) -> Total:
    whole = Total()
    for total in totals:
        whole.join(total)
    return whole


def _runs(
    measured: dict[Step, Total], completed: int, count: Callable[..., dict[str, int]]
) -> tuple[TimingRecord, ...]:
    """Return the completed runs by workflow, the slowest first.

    ``completed``: how many there are. ``count`` counts them by workflow, of all or ``only`` of some.
    """
    spreads = {workflow: total.spread for (workflow, _), total in measured.items()}
    slowest = sorted(spreads, key=lambda workflow: (-(spreads[workflow].p95 or 0.0), workflow))[: 2 * MAX_ROWS]
    counts = count(only=slowest)
    if len(counts) < MAX_ROWS and sum(counts.values()) < completed:
        # Others are shown, too: of runs that were measured long ago, or nowhere.
        counts = count()
    rows = [
        TimingRecord.trusted(
            workflow=workflow,
            step="",
            count=number,
            spread=spreads.get(workflow, DurationSummary()),
            failed=0,
            retried=0,
        )
        for workflow, number in counts.items()
    ]
    return tuple(sorted(rows, key=_by_size)[:MAX_ROWS])


def _steps(totals: Totals) -> tuple[TimingRecord, ...]:
    """Return the slowest steps."""
    rows = [
        TimingRecord.trusted(
            workflow=key[0],
            step=key[1],
            count=total.count,
            spread=total.spread,
            failed=totals[Measure.STEP_FAILED].get(key, Total()).count,
            retried=totals[Measure.STEP_RETRIED].get(key, Total()).count,
        )
        for key, total in totals[Measure.STEP].items()
    ]
    return tuple(sorted(rows, key=_by_size)[:MAX_ROWS])


def _by_size(row: TimingRecord) -> tuple[float, str, str]:
    return -(row.spread.p95 or 0.0), row.workflow, row.step


def oldest_requests(rows: QuerySet[HumanRequest]) -> tuple[WaitingRequestRecord, ...]:
    """Return the oldest of these requests, at most ``MAX_OLDEST_REQUESTS``."""
    names = ("id", "workflow", "step", "created", "due", "stuck", "subject", "by")
    found = rows.order_by("created", "id").values(*names)[:MAX_OLDEST_REQUESTS]
    return tuple(
        WaitingRequestRecord.trusted(**row | {"subject": visible(row["subject"] or ""), "by": tuple(row["by"])})
        for row in found
    )


def late_schedules(mine: Q) -> tuple[LateScheduleRecord, ...]:
    """Return the schedules that should have started a run by now, at most ``MAX_ROWS``."""
    rows = Schedule.objects.filter(mine, next_at__lt=timezone.now() - LATE_AFTER).order_by("next_at")
    return tuple(
        LateScheduleRecord.trusted(name=name, workflow=workflow, next_at=at)
        for name, workflow, at in rows.values_list("name", "workflow", "next_at")[:MAX_ROWS]
        if at is not None
    )


def _workflows(viewer: Viewer, measured: Iterable[str]) -> tuple[str, ...]:
    """Return the workflows to choose from: those that are loaded, and those with metrics."""
    loaded = {entry.name for entry in catalog.entries() if viewer.may("see", entry.name)}
    return tuple(sorted(loaded | set(measured)))


def failed_runs(mine: Q, since: datetime, until: datetime | None = None) -> QuerySet[Run]:
    """Return the runs that failed in this time and are failed still, the latest first."""
    found = Run.objects.filter(mine, phase=Phase.FAILED.value, finished__gte=since)
    return (found.filter(finished__lt=until) if until else found).order_by("-finished")


def error_groups(
    viewer: Viewer, failed: QuerySet[Run], most: int = MOST_GROUPS, *, examples: bool = True, slot: int = 0
) -> tuple[ErrorGroup, ...]:
    """Return the largest groups of the latest ``MOST_FAILED`` of these, each with its latest failure (two queries).

    ``examples``: and with the run that failed so, which takes three more. ``slot``: how much of a time its counts are
    split by: 13 characters are an hour, 10 a day.
    """
    latest = statement_of(failed.values_list("id", "workflow", "finished")[:MOST_FAILED])
    if not latest.sql:
        return ()
    with connection().cursor() as cursor:
        cursor.execute(GROUPED.format(latest=latest.sql), [slot, *latest.params])
        parts = defaultdict[tuple[str, str], list[Any]](list)
        for workflow, error, *part in cursor.fetchall():
            parts[workflow, error or ""].append(part)
    counts = {key: sum(count for count, *_ in found) for key, found in parts.items()}
    groups = sorted(parts.items(), key=lambda one: (-counts[one[0]], one[0]))[:most]
    latest_ids = [max(example for *_, example, _ in found) for _, found in groups]
    failures = failures_of(viewer, latest_ids)
    runs = {row.id: row for row in run_rows(viewer, latest_ids)} if examples else {}
    return tuple(
        ErrorGroup.trusted(
            workflow=workflow,
            error=error,
            count=counts[workflow, error],
            since=moment(min(since for _, since, *_ in found)),
            last=moment(max(last for _, _, last, *_ in found)),
            example=runs.get(example),
            failure=failures.get(example, ("", "")),
            times={time: count for count, *_, time in found},
        )
        for ((workflow, error), found), example in zip(groups, latest_ids, strict=True)
    )
