"""Current counts of runs and requests, and all-time totals: for the statistics page and for scrapers.

Completed runs are in the totals, not in the gauges: nothing here gets slower as they become many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.functions import Now

from checkpoints.database.compiled import compiled
from checkpoints.database.living_workers import served_workflows
from checkpoints.models import FOR_PEOPLE, OPEN, Claim, Event, HumanRequest, Run, Tally, TallyMark
from checkpoints.records import ENDED, Phase, Status, status_of
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.histograms import ALL_TIME, Measure, Total
from wfdash.queries.statistics.run_counts import counted_with
from wfdash.queries.workers import with_workflow

OTHER_OPEN_PHASES = tuple(phase.value for phase in Phase if phase not in ENDED and phase is not Phase.PAUSED)
WHOLE = (*OTHER_OPEN_PHASES, Phase.FAILED.value)
LIVE, EXPIRED, SOMEONE, GONE = "live", "expired", "someone", "gone"
OTHERS = "(others)"


Names = tuple[str, ...]
BY_WORKFLOW: Names = ("workflow",)
Totals = dict[Names, Total]
"""By workflow, step, label."""


@dataclass(frozen=True, kw_only=True)
class WaitingRequests:
    """Open requests of a workflow."""

    count: int
    since: datetime


def count_by_status(viewer: Viewer, workflow: str = "") -> dict[tuple[str, Status], int]:
    """Return workflow, status -> how many runs have it: those not ended, and failed (one query)."""
    return {(names[0], status): count for (names, status), count in _count_statuses(viewer, workflow, BY_WORKFLOW)}


def count_statuses(viewer: Viewer, workflow: str = "") -> dict[Status, int]:
    """Return status -> how many runs have it, the same runs (one query, of indexes for who may see all)."""
    return {status: count for (_, status), count in _count_statuses(viewer, workflow, ())}


def _count_statuses(viewer: Viewer, workflow: str, by: Names) -> Iterable[tuple[tuple[Names, Status], int]]:
    counts: defaultdict[tuple[Names, Status], int] = defaultdict(int)
    others = _numbers_by_status(viewer, workflow, by)
    together = _all_together(viewer, workflow, by)
    for *names, phase, mark, count in (counted_with(others, WHOLE) if together else others).rows():
        key, claimed = tuple(names), mark in {LIVE, EXPIRED}
        status = status_of(Phase(phase), claimed=claimed, claim_live=mark == LIVE, acted_by=mark)
        counts[key, status] += -count if mark == GONE else count
        if claimed:
            counts[key, Status.QUEUED] -= count
    return ((key, count) for key, count in counts.items() if count)


@compiled
def _numbers_by_status(viewer: Viewer, workflow: str, by: Names) -> QuerySet[Any, Any]:
    rows = Run.objects.order_by() if viewer.may("see", EVERY) else Run.objects.filter(viewer.scope("see")).order_by()
    rows = rows.filter(workflow=workflow) if workflow else rows
    together = _all_together(viewer, workflow, by)
    # Of all workflows together ``counted_with`` counts in an index, runs that are being removed among them.
    others = rows.none() if together else rows
    gone = Run.remains.filter(phase__in=WHOLE).order_by() if together else Run.remains.none()
    ready = rows.filter(pk=OuterRef("run_id"), phase=Phase.READY.value, epoch__lte=OuterRef("epoch"))
    # Each phase by itself: its rows come from an index in the order in which they are grouped.
    open_ones = (others.filter(phase=phase, finished__isnull=True) for phase in OTHER_OPEN_PHASES)
    parts = (
        *(_numbers(one, _text(""), by) for one in open_ones),
        _numbers(others.filter(phase=Phase.FAILED.value, finished__isnull=False), _text(""), by),
        _numbers(gone, _text(GONE), by),
        _numbers(rows.filter(phase=Phase.PAUSED.value), _either(Q(acted_by=""), "", SOMEONE), by),
        # From the claims, which are few, to their runs.
        _numbers(
            with_workflow(Claim.objects.filter(Exists(ready))).annotate(phase=_text(Phase.READY.value)),
            _either(Q(expires__gt=Now()), LIVE, EXPIRED),
            by,
        ),
    )
    return parts[0].union(*parts[1:], all=True)


def _all_together(viewer: Viewer, workflow: str, by: Names) -> bool:
    return viewer.may("see", EVERY) and not workflow and not by


def _numbers(rows: QuerySet[Any, Any], mark: Any, by: Names) -> QuerySet[Any, Any]:
    """Return how many of the rows there are by these columns, phase and mark."""
    found: QuerySet[Any, Any] = rows.annotate(mark=mark).values_list(*by, "phase", "mark").annotate(number=Count("*"))
    return found


def _text(value: str) -> Value:
    return Value(value, output_field=CharField())


def _either(condition: Q, yes: str, no: str) -> Case:
    return Case(When(condition, then=Value(yes)), default=Value(no), output_field=CharField())


def count_unserved() -> dict[str, int]:
    """Return workflow -> how many of its runs are due and served by no running worker (four queries).

    Those that are ready are counted in an index; claims, which are few, are subtracted.
    """
    ready = Run.objects.filter(phase=Phase.READY.value, for_workers=True).order_by()
    due = ready.filter(finished__isnull=True).values_list("workflow").annotate(number=Count("*"))
    claimed = Claim.objects.filter(Exists(ready.filter(pk=OuterRef("run_id"))), expires__gt=Now())
    counts = Counter(dict(due))
    counts.subtract(dict(with_workflow(claimed).values_list("workflow").annotate(number=Count("*"))))
    return unserved_of(counts)


def unserved_of(due: Mapping[str, int]) -> dict[str, int]:
    """Return which of these workflows, each with the number of its runs that are due, no running worker serves (two
    queries).
    """
    served = served_workflows()
    return {} if served is None else {name: count for name, count in due.items() if count > 0 and name not in served}


def open_requests(viewer: Viewer) -> dict[str, WaitingRequests]:
    """Return workflow -> its open requests (one query)."""
    rows = HumanRequest.objects.filter(viewer.scope("see"), OPEN & FOR_PEOPLE).order_by()
    found = rows.values_list("workflow").annotate(Count("pk"), Min("created"))
    return {workflow: WaitingRequests(count=count, since=since) for workflow, count, since in found}


def all_totals(viewer: Viewer) -> dict[Measure, Totals]:
    """Return measure -> workflow, step, label -> its all-time total (one query). Only grows."""
    rows = Tally.objects.filter(viewer.scope("see"), measure__in=list(Measure), hour=ALL_TIME)
    totals: defaultdict[Measure, Totals] = defaultdict(lambda: defaultdict(Total))
    found = rows.values_list("measure", "workflow", "step", "label", "bucket", "count", "total")
    for measure, workflow, step, label, bucket, count, total in found:
        totals[Measure(measure)][workflow, step, label].add(bucket, count, total)
    return totals


def claims() -> dict[str, int]:
    """Return how many claims are live and how many expired (one query)."""
    rows = Claim.objects.annotate(
        alive=Case(When(expires__gt=Now(), then=Value("live")), default=Value("expired"), output_field=CharField())
    )
    return {"live": 0, "expired": 0} | dict(rows.values_list("alive").annotate(Count("pk")).order_by())


def count_pending() -> int:
    """Return how many events, at most, are not counted yet (two queries)."""
    last = Event.objects.aggregate(last=Max("pk"))["last"] or 0
    mark = TallyMark.objects.filter(pk=1).values_list("event", flat=True).first() or 0
    return max(int(last) - int(mark), 0)


def narrow(totals: Totals, names: Callable[[Names], Names], limit: int) -> Totals:
    """Return totals by these names; beyond a limit, the smaller ones are summed up as ``(others)``."""
    joined: Totals = {}
    for key, total in totals.items():
        joined.setdefault(names(key), Total()).join(total)
    if len(joined) <= limit:
        return joined
    ordered = sorted(joined, key=lambda name: -joined[name].count)
    kept = {name: joined[name] for name in ordered[: limit - 1]}
    rest = kept[tuple(OTHERS for _ in ordered[0])] = Total()
    for name in ordered[limit - 1 :]:
        rest.join(joined[name])
    return kept
