"""Recent statistics by workflow, step, gate and group.

Runs and decisions are counted as their lists find them; durations of runs and steps come from the stored metrics,
however many runs there are. And what needs an operator now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, Exists, ExpressionWrapper, F, Min, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Statement, compiled, count_each, statement_of
from checkpoints.models import FOR_PEOPLE, OPEN, Claim, Event, HumanRequest, KnownError, Run, RunFact, Schedule
from checkpoints.models.user_model import User
from checkpoints.records import Phase
from checkpoints.rules import NEVER
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import NotFound
from wfdash.domain.labels import visible
from wfdash.domain.search_attributes import ERROR
from wfdash.engines import catalog
from wfdash.queries.requests.inbox import UNANSWERABLE
from wfdash.queries.runs.listing import RunRow, failures_of, run_rows
from wfdash.queries.statistics.durations import (
    Measure,
    Scope,
    Step,
    Total,
    Totals,
    durations_in,
    moment,
    quantile,
    slots_of,
    totals_since,
    usage_in,
)
from wfdash.queries.statistics.gates import decisions_in
from wfdash.queries.statistics.gauges import (
    count_by_workflow,
    count_ended,
    count_started,
    count_statuses,
    count_unserved,
)
from wfdash.records.statistics import (
    BacklogRecord,
    DurationSummary,
    ErrorGroupRecord,
    LateScheduleRecord,
    MutedErrorRecord,
    OperationsRecord,
    SilentRun,
    StatisticsRecord,
    TimingRecord,
    WaitingRequestRecord,
    WorkerRecord,
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
    viewer: Viewer,
    failed: QuerySet[Run],
    most: int = MOST_GROUPS,
    *,
    examples: bool = True,
    slot: int = 0,
    wanted: Callable[[tuple[str, str]], bool] = lambda _: True,
) -> tuple[ErrorGroup, ...]:
    """Return the largest groups of the latest ``MOST_FAILED`` of these, each with its latest failure (two queries).

    ``examples``: and with the run that failed so, which takes three more. ``slot``: how much of a time its counts are
    split by: 13 characters are an hour, 10 a day. ``wanted``: which workflows and errors.
    """
    latest = statement_of(failed.values_list("id", "workflow", "finished")[:MOST_FAILED])
    if not latest.sql:
        return ()
    with connection().cursor() as cursor:
        cursor.execute(GROUPED.format(latest=latest.sql), [slot, *latest.params])
        parts = defaultdict[tuple[str, str], list[Any]](list)
        for workflow, error, *part in cursor.fetchall():
            if wanted((workflow, error or "")):
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


# What needs an operator now: failures by error, runs that do not progress, requests, workers, schedules. Each part is
# bounded, so that it costs the same in an installation where thousands of runs fail.

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
MOST_ERRORS = 2_000
"""Errors of which is read what is known, the latest."""
MUTED = ExpressionWrapper(
    Q(muted_at__isnull=False)
    & (Q(muted_until__isnull=True) | Q(last_at__lt=F("muted_until")))
    & (Q(muted_version="") | Q(last_version=F("muted_version"))),
    output_field=BooleanField(),
)
"""Whether an error is muted still: its latest failure ends that."""
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


def read_operations(
    viewer: Viewer, within: timedelta = RECENT, assignee: str = "", *, examples: bool = True
) -> Operations:
    """Return what needs attention in the workflows this person operates; failures are those of ``within``.

    ``assignee``: only errors of this person (``me``), or of no one (``none``). Errors that are muted are named apart.
    ``examples``: with a run of each group of failures. At most twenty-four queries, however many runs and requests
    there are.
    """
    now, mine = timezone.now(), viewer.scope("operate")
    failed = failed_runs(mine, now - within)
    held, asked = _held(mine), HumanRequest.objects.filter(mine, OPEN & FOR_PEOPLE)
    overdue, unanswerable = asked.filter(due__lt=now), asked.filter(UNANSWERABLE)
    running = _running(mine)
    errors = KnownError.objects.filter(mine, last_at__gte=now - within).select_related("assignee").order_by("-last_at")
    known = {(one.workflow, one.error): one for one in errors.annotate(muted=MUTED)[:MOST_ERRORS]}
    wanted = {"me": viewer.name, "none": ""}.get(assignee, assignee)

    def shown(key: tuple[str, str]) -> bool:
        one = known.get(key)
        return not (one and one.muted) and (not assignee or wanted == (_name_of(one.assignee) if one else ""))

    failures, holds, overdues, stranded = count_each(
        [statement_of(rows.values("pk")) for rows in (failed[:MOST_FAILED], held, overdue, unanswerable)]
    )
    return Operations.trusted(
        failed=failures,
        groups=tuple(
            _with_past(group, known.get((group.workflow, group.error)), now)
            for group in error_groups(
                viewer, failed, slot=HOUR if within <= RECENT else DAY, wanted=shown, examples=examples
            )
        ),
        muted=tuple(_as_muted(one) for one in known.values() if one.muted),
        held=run_rows(viewer, held.values_list("pk", flat=True)[:MOST_RUNS]),
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


def _as_muted(one: KnownError) -> MutedErrorRecord:
    return MutedErrorRecord.trusted(
        workflow=one.workflow, error=one.error, last=one.last_at, until=one.muted_until, version=one.muted_version
    )


def _with_past(group: ErrorGroup, known: KnownError | None, now: datetime) -> ErrorGroup:
    """Return the group with what is known of its error."""
    if known is None:
        return group
    new, again = (at is not None and now - at < RECENT for at in (known.first_at, known.again_at))
    past = {"first_at": known.first_at, "first_version": known.first_version, "new": new, "regressed": again}
    return group.model_copy(update=past | {"assignee": _name_of(known.assignee)})


def _name_of(person: User | None) -> str:
    return person.get_username() if person else ""


def problems_of(viewer: Viewer) -> tuple[Statement, Statement]:
    """Return the queries of runs that failed in the last day by no muted error, and that are held.

    Each of at most ``MOST_COUNTED``.
    """
    # By the minute, so that the query is compiled once a minute. Two queries: PostgreSQL reads every run for either.
    since = (timezone.now() - RECENT).replace(second=0, microsecond=0)
    return _failed_since(viewer, since), _held_for(viewer)


@compiled
def _failed_since(viewer: Viewer, since: datetime) -> QuerySet[Any, Any]:
    named = RunFact.objects.filter(run_id=OuterRef("pk"), name=ERROR).exclude(text__contains=".").values("text")
    muted = KnownError.objects.filter(MUTED, workflow=OuterRef("workflow"), error=OuterRef("known"))
    failed = failed_runs(viewer.scope("operate"), since).annotate(known=Coalesce(Subquery(named[:1]), Value("")))
    return failed.exclude(Exists(muted)).values("pk")[:MOST_COUNTED]


@compiled
def _held_for(viewer: Viewer) -> QuerySet[Any, Any]:
    return _held(viewer.scope("operate")).values("pk")[:MOST_COUNTED]


def _held(mine: Q) -> QuerySet[Run]:
    # In the order of the index of phases, which a plan for any phase would not choose otherwise.
    return Run.objects.filter(mine, phase=Phase.PAUSED.value, acted_by="").order_by("-created", "-id")


Busy = tuple[str, str, str, datetime]
"""Run, workflow, worker and latest commit of a run that a worker has now."""


def _running(mine: Q) -> list[Busy]:
    runs = Run.objects.filter(mine, pk=OuterRef("run_id"))
    claims = Claim.objects.filter(Exists(runs), expires__gt=Now(), epoch__gte=F("run__epoch"))
    columns = ("run_id", "run__workflow", "worker", "run__updated")
    return list(claims.order_by("run__updated").values_list(*columns)[:MOST_CLAIMS])


def _stuck(viewer: Viewer, running: Iterable[Busy], now: datetime) -> tuple[SilentRun, ...]:
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


def _workers(running: Iterable[Busy]) -> tuple[WorkerRecord, ...]:
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
    known = ready.filter(finished__isnull=True).count()
    taken = live.filter(Exists(ready.filter(pk=OuterRef("run_id"), epoch__lte=OuterRef("epoch")))).count()
    free = ready.filter(~Exists(live.filter(run=OuterRef("pk"), epoch__gte=OuterRef("epoch"))))
    # No ``updated`` is earlier than its run's ``created``, which has an index: few runs can have an earlier one.
    oldest = free.order_by("created").values_list("updated", flat=True)[:MOST_RUNS]
    early = min((at for at in oldest if at > NEVER), default=now)
    since = free.filter(created__lte=early).aggregate(since=Min("updated"))["since"]
    backlog = Backlog.trusted(count=max(0, known - taken), since=since, delay=total.spread)
    if not backlog.late:
        return backlog
    counts = count_unserved().items()
    return backlog.model_copy(update={"unserved": {name: n for name, n in counts if viewer.may("operate", name)}})
