"""Current counts of runs and requests, and all-time totals: for the statistics page and for scrapers.

Completed runs are in the totals, not in the gauges: nothing here gets slower as they become many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, CharField, Count, Exists, F, Max, Min, OuterRef, Q, Value, When
from django.db.models.functions import Now

from checkpoints.database.living_workers import served_workflows
from checkpoints.models import FOR_PEOPLE, OPEN, Claim, Event, HumanRequest, Run, Tally, TallyMark
from checkpoints.records import ENDED, Phase, Status, status_of
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.histograms import ALL_TIME, Measure, Total

PHASES_WITH_STATUSES = (Phase.READY.value, Phase.PAUSED.value)
OTHER_OPEN_PHASES = tuple(
    phase.value for phase in Phase if phase not in ENDED and phase.value not in PHASES_WITH_STATUSES
)
OTHERS = "(others)"
ALL = Q()


Names = tuple[str, ...]
Totals = dict[Names, Total]
"""By workflow, step, label."""


@dataclass(frozen=True, kw_only=True)
class WaitingRequests:
    """Open requests of a workflow."""

    count: int
    since: datetime


def count_by_status(viewer: Viewer, workflow: str = "") -> dict[tuple[str, Status], int]:
    """Return workflow, status -> how many runs have it: those not ended, and failed (two queries)."""
    # Failed runs become many, and the index of ends has all that is read of them: no id, which a scope might name.
    rows = Run.objects.order_by() if viewer.may("see", EVERY) else Run.objects.filter(viewer.scope("see")).order_by()
    rows = rows.filter(workflow=workflow) if workflow else rows
    counts: defaultdict[tuple[str, Status], int] = defaultdict(int)
    plain, failed = (
        rows.filter(which).values_list("workflow", "phase").annotate(number=Count("*"))
        for which in (Q(phase__in=OTHER_OPEN_PHASES), Q(phase=Phase.FAILED.value, finished__isnull=False))
    )
    for name, phase, count in plain.union(failed, all=True):
        counts[name, Status(phase)] += count
    has_claim = Q(claim__epoch__gte=F("epoch"))
    apart = rows.filter(phase__in=PHASES_WITH_STATUSES).annotate(
        claimed=Case(When(has_claim, then=Value(True)), default=Value(False)),
        alive=Case(When(has_claim, claim__expires__gt=Now(), then=Value(True)), default=Value(False)),
        actor=Case(When(acted_by="", then=Value("")), default=Value("someone"), output_field=CharField()),
    )
    for name, phase, claimed, alive, actor, count in apart.values_list(
        "workflow", "phase", "claimed", "alive", "actor"
    ).annotate(Count("pk")):
        counts[name, status_of(Phase(phase), claimed=claimed, claim_live=alive, acted_by=actor)] += count
    return dict(counts)


def count_unserved(scope: Q = ALL) -> dict[str, int]:
    """Return workflow -> how many of its runs are due and served by no running worker (three queries)."""
    served = served_workflows()
    if served is None:
        return {}
    live = Claim.objects.filter(run=OuterRef("pk"), expires__gt=Now())
    due = Run.objects.filter(~Exists(live), scope, phase=Phase.READY.value, for_workers=True).order_by()
    return dict(due.exclude(workflow__in=served).values_list("workflow").annotate(Count("pk")))


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
