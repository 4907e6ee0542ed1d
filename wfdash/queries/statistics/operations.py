"""What needs an operator now: failures by error, runs that do not progress, requests, workers, schedules.

Each part is bounded, so that the page costs the same in an installation where thousands of runs fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, Min, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints.database.compiled import Statement, compiled, count_each, statement_of
from checkpoints.models import FOR_PEOPLE, OPEN, Claim, Event, HumanRequest, Run
from checkpoints.records import Phase
from checkpoints.rules import NEVER
from wfdash.access.viewer import EVERY, Viewer
from wfdash.queries.requests.inbox import UNANSWERABLE
from wfdash.queries.runs.listing import RunRow, run_rows
from wfdash.queries.statistics import figures
from wfdash.queries.statistics.durations import Measure, Scope, Total, quantile, totals_since
from wfdash.queries.statistics.figures import ErrorGroup, error_groups, failed_runs, late_schedules, oldest_requests
from wfdash.queries.statistics.gauges import count_unserved
from wfdash.records.statistics import (
    BacklogRecord,
    OperationsRecord,
    SilentRun,
    WorkerRecord,
)

MOST_RUNS = 8
"""Runs shown of those that are held or stuck."""
MOST_COUNTED = 100
"""Runs counted for the badge of the navigation."""
MOST_CLAIMS = 2_000
USUAL = timedelta(days=30)
"""How far back a step's usual duration is taken from."""
LEAST_STUCK = timedelta(minutes=10)
TIMES_USUAL = 3
PICKED_UP = timedelta(seconds=60)
"""A run that no worker takes within this time is waiting for one."""
RECENT = timedelta(hours=24)
HOUR, DAY = 13, 10
"""Characters of a time that say its hour, and its day."""


class Backlog(BacklogRecord):
    """Runs that no worker has taken: how many, the oldest since when, and the delay of those that were taken today."""

    unserved: Mapping[str, int] = {}
    """Workflow -> how many of them no running worker serves; known once runs have waited for too long."""

    @property
    def late(self) -> bool:
        """Return whether runs have waited for a worker longer than they should."""
        return self.since is not None and timezone.now() - self.since > PICKED_UP


class Operations(OperationsRecord):
    """Everything that needs attention in the workflows that a person operates."""

    groups: tuple[ErrorGroup, ...]
    held: tuple[RunRow, ...]
    backlog: Backlog

    @property
    def clear(self) -> bool:
        """Return whether nothing needs attention."""
        requests = self.overdue_count or self.unanswerable_count
        return not (self.failed or self.held_count or self.stuck or requests or self.backlog.late or self.late)


def read_operations(viewer: Viewer, within: timedelta = RECENT) -> Operations:
    """Return what needs attention in the workflows this person operates; failures are those of ``within``.

    At most twenty-three queries, however many runs and requests there are.
    """
    now, mine = timezone.now(), viewer.scope("operate")
    failed = failed_runs(mine, now - within)
    held, asked = _held(mine), HumanRequest.objects.filter(mine, OPEN & FOR_PEOPLE)
    overdue, unanswerable = asked.filter(due__lt=now), asked.filter(UNANSWERABLE)
    running = _running(mine)
    failures, holds, overdues, stranded = count_each(
        [statement_of(rows.values("pk")) for rows in (failed[: figures.MOST_FAILED], held, overdue, unanswerable)]
    )
    return Operations.trusted(
        failed=failures,
        groups=error_groups(viewer, failed, slot=HOUR if within <= RECENT else DAY),
        held=run_rows(viewer, held.order_by("-created", "-id").values_list("pk", flat=True)[:MOST_RUNS]),
        held_count=holds,
        stuck=_stuck(viewer, running, now),
        overdue=oldest_requests(overdue),
        overdue_count=overdues,
        unanswerable=oldest_requests(unanswerable),
        unanswerable_count=stranded,
        workers=_workers(running),
        backlog=_backlog(viewer, Scope(mine=mine, every=viewer.may("operate", EVERY)), now),
        late=late_schedules(mine),
    )


def problems_of(viewer: Viewer) -> tuple[Statement, Statement]:
    """Return the queries of runs that failed in the last day, and that are held, each of at most ``MOST_COUNTED``."""
    # By the minute, so that the query is compiled once a minute. Two queries: PostgreSQL reads every run for either.
    since = (timezone.now() - RECENT).replace(second=0, microsecond=0)
    return _failed_since(viewer, since), _held_for(viewer)


@compiled
def _failed_since(viewer: Viewer, since: datetime) -> QuerySet[Any, Any]:
    return failed_runs(viewer.scope("operate"), since).values("pk")[:MOST_COUNTED]


@compiled
def _held_for(viewer: Viewer) -> QuerySet[Any, Any]:
    return _held(viewer.scope("operate")).values("pk")[:MOST_COUNTED]


def _held(mine: Q) -> QuerySet[Run]:
    return Run.objects.filter(mine, phase=Phase.PAUSED.value, acted_by="").order_by()


def _running(mine: Q) -> list[tuple[str, str, str, datetime]]:
    """Return run, workflow, worker and latest commit of the runs that a worker has now."""
    runs = Run.objects.filter(mine, pk=OuterRef("run_id"))
    claims = Claim.objects.filter(Exists(runs), expires__gt=Now(), epoch__gte=F("run__epoch"))
    columns = ("run_id", "run__workflow", "worker", "run__updated")
    return list(claims.order_by("run__updated").values_list(*columns)[:MOST_CLAIMS])


def _stuck(viewer: Viewer, running: Iterable[tuple[str, str, str, datetime]], now: datetime) -> tuple[SilentRun, ...]:
    silent = silences({run: workflow for run, workflow, _, updated in running if now - updated > LEAST_STUCK}, now)
    rows = run_rows(viewer, [*silent][:MOST_RUNS])
    return tuple(
        SilentRun.trusted(run=row, quiet_since=silent[row.id][0], usual=silent[row.id][1] or None) for row in rows
    )


def silences(candidates: Mapping[str, str], now: datetime) -> dict[str, tuple[datetime, float]]:
    """Return run -> its latest event, and the usual seconds of its workflow's steps (0: unknown), of those of these
    runs (with their workflow) that were silent for ``TIMES_USUAL`` that long (two queries, none without runs).
    """
    if not candidates:
        return {}
    usual, heard = _usual(candidates.values(), now), _heard(candidates)
    found = {run: (heard.get(run, now), usual.get(workflow, 0.0)) for run, workflow in candidates.items()}
    return {
        run: (at, seconds)
        for run, (at, seconds) in found.items()
        if now - at > max(LEAST_STUCK, TIMES_USUAL * timedelta(seconds=seconds))
    }


def _heard(runs: Iterable[str]) -> dict[str, datetime]:
    """Return the time of each run's latest event: a long step that reports progress is not stuck."""
    latest = Event.objects.filter(run_id__in=list(runs), seq=F("run__seq"))
    return dict(latest.values_list("run_id", "at"))


def _usual(workflows: Iterable[str], now: datetime) -> dict[str, float]:
    """Return the p95 of the slowest step of each of these workflows, in seconds."""
    scope = Scope(mine=Q(workflow__in=sorted(set(workflows))))
    slowest: dict[str, float] = {}
    for (workflow, _), total in totals_since(scope, now - USUAL, now)[Measure.STEP].items():
        slowest[workflow] = max(slowest.get(workflow, 0.0), quantile(total.buckets, 0.95) or 0.0)
    return slowest


def _workers(running: Iterable[tuple[str, str, str, datetime]]) -> tuple[WorkerRecord, ...]:
    commits: defaultdict[str, list[datetime]] = defaultdict(list)
    for _, _, worker, updated in running:
        commits[worker].append(updated)
    loads = [
        WorkerRecord.trusted(name=name, runs=len(times), quiet_since=min(times)) for name, times in commits.items()
    ]
    return tuple(sorted(loads, key=lambda load: (-load.runs, load.name)))


def _backlog(viewer: Viewer, scope: Scope, now: datetime) -> Backlog:
    """Return the runs that are ready and no worker's, and how long those started today waited.

    Ready ones are counted in an index, and the claimed ones, which are few, subtracted.
    """
    total = Total()
    for one in totals_since(scope, now - RECENT, now)[Measure.QUEUE].values():
        total.join(one)
    ready = Run.objects.filter(scope.mine, phase=Phase.READY.value).order_by()
    live = Claim.objects.filter(expires__gt=Now())
    claimed = live.filter(Exists(ready.filter(pk=OuterRef("run_id"), epoch__lte=OuterRef("epoch"))))
    known, taken = count_each(
        [statement_of(rows.values("pk")) for rows in (ready.filter(finished__isnull=True), claimed)]
    )
    free = ready.filter(~Exists(live.filter(run=OuterRef("pk"), epoch__gte=OuterRef("epoch"))))
    # No ``updated`` is earlier than its run's ``created``, which has an index: few runs can have an earlier one.
    oldest = free.order_by("created").values_list("updated", flat=True)[:MOST_RUNS]
    early = min((at for at in oldest if at > NEVER), default=now)
    since = free.filter(created__lte=early).aggregate(since=Min("updated"))["since"]
    backlog = Backlog.trusted(count=known - taken, since=since, delay=total.spread)
    if not backlog.late:
        return backlog
    counts = count_unserved().items()
    return backlog.model_copy(update={"unserved": {name: n for name, n in counts if viewer.may("operate", name)}})
