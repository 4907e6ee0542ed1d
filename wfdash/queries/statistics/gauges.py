"""Current counts of runs and requests, and all-time totals: for the statistics page and for scrapers.

Completed runs are in the totals, not in the gauges: nothing here gets slower as they become many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
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
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Now

from checkpoints.database import clock
from checkpoints.database.alias import connection
from checkpoints.database.compiled import FirstValues, Statement, compiled
from checkpoints.database.living_workers import served_workflows
from checkpoints.models import FOR_PEOPLE, OPEN, Claim, Event, HumanRequest, Run, Tally, TallyMark
from checkpoints.records import ENDED, Phase, Status, frozen, status_of
from wfdash.access.viewer import EVERY, Viewer
from wfdash.queries.statistics.durations import ALL_TIME, Measure, Total
from wfdash.queries.workers import with_workflow
from wfdash.records.statistics import TimeSlot

# Whether everything that was due has happened.

_oldest = FirstValues(
    deadlines=clock.ALARMS.values_list("alarm"),
    answers=clock.SETTLING.values_list("settles"),
    naps=clock.SLEEPING.values_list("wake_at"),
    schedules=clock.SCHEDULES.values_list("next_at"),
)


def lateness(now: datetime) -> dict[str, float]:
    """Return what is overdue: ``deadlines``, ``answers``, ``naps``, ``schedules`` -> seconds of the oldest (1 query).

    ``naps`` are sleeping runs. Each is one index look-up. ``now``: the database's time.
    """
    oldest = _oldest.read()[1]
    return {name: (now - at).total_seconds() for name, at in oldest.items() if at < now}


OTHER_OPEN_PHASES = tuple(phase.value for phase in Phase if phase not in ENDED and phase is not Phase.PAUSED)
WHOLE = (*OTHER_OPEN_PHASES, Phase.FAILED.value)
LIVE, EXPIRED, SOMEONE, GONE = "live", "expired", "someone", "gone"
OTHERS = "(others)"


Names = tuple[str, ...]
BY_WORKFLOW: Names = ("workflow",)
Totals = dict[Names, Total]
"""By workflow, step, label."""


@frozen
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
        status = status_of(Phase.stored(phase), claimed=claimed, claim_live=mark == LIVE, acted_by=mark)
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
    own = Subquery(ready.filter(pk=OuterRef("run_id")).values("workflow"))
    counts = Counter(dict(due))
    counts.subtract(dict(Claim.objects.filter(expires__gt=Now()).values_list(own).annotate(Count("pk"))))
    served = served_workflows()
    return {} if served is None else {name: count for name, count in counts.items() if count > 0 and name not in served}


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


# Counts of runs by slot: of the very runs that a list finds, along indexes.

TABLE = Run._meta.db_table
EACH = (
    f"WITH s(n, since, until) AS (VALUES {{slots}}), p(phase) AS (VALUES {{phases}})"  # noqa: S608
    f" SELECT n, phase, (SELECT COUNT(*) FROM {TABLE} r WHERE r.phase = p.phase AND r.finished IS NOT NULL"
    f" AND r.finished >= s.since AND r.finished < s.until{{among}}) FROM s CROSS JOIN p"
)
"""A count of its own for each slot and phase: each is one stretch of an index, which groups would have to be sorted."""
STARTED = (
    f"WITH s(n, since, until) AS (VALUES {{slots}}) SELECT n, (SELECT COUNT(*) FROM {TABLE} r"  # noqa: S608
    f" WHERE r.created >= s.since AND r.created < s.until{{among}}) FROM s"
)
COUNTS_BY_WORKFLOW = (
    f"SELECT r.workflow, COUNT(*) FROM {TABLE} r WHERE r.phase = %s AND r.finished IS NOT NULL"  # noqa: S608
    f" AND r.finished >= %s AND r.finished < %s{{among}} GROUP BY r.workflow"
)

IN_PHASE = f"SELECT phase, '', (SELECT COUNT(*) FROM {TABLE} r WHERE r.phase = p.phase) FROM p"  # noqa: S608


def counted_with(others: Statement, phases: Iterable[str]) -> Statement:
    """Return a query of each of these phases, an empty text and how many runs are in it, what is left of removed ones
    included; and of the rows of others with such columns.
    """
    names = ", ".join(f"('{phase}')" for phase in phases)
    sql = f"WITH p(phase) AS (VALUES {names}) {IN_PHASE}"
    return Statement(sql=f"{sql} UNION ALL {others.sql}" if others.sql else sql, params=others.params)


def count_started(viewer: Viewer, workflow: str, slots: Sequence[TimeSlot]) -> tuple[int, ...]:
    """Return how many runs were created in each slot (one query)."""
    among, names = _among(_names(viewer, workflow))
    counts = dict(_rows(STARTED.format(slots=_values(slots), among=among), [*_edges(slots), *names]))
    return tuple(counts.get(place, 0) for place in range(len(slots)))


def count_ended(viewer: Viewer, workflow: str, slots: Sequence[TimeSlot]) -> dict[Phase, tuple[int, ...]]:
    """Return how many runs ended in each slot, by how (one query). A run that was retried is no longer one of them."""
    among, names = _among(_names(viewer, workflow))
    phases = ", ".join(f"('{phase.value}')" for phase in sorted(ENDED))
    rows = _rows(EACH.format(slots=_values(slots), phases=phases, among=among), [*_edges(slots), *names])
    counts = {(place, phase): count for place, phase, count in rows}
    return {phase: tuple(counts[place, phase.value] for place in range(len(slots))) for phase in ENDED}


def count_by_workflow(
    viewer: Viewer, workflow: str, phase: Phase, slots: Sequence[TimeSlot], only: Iterable[str] | None = None
) -> dict[str, int]:
    """Return workflow -> how many of its runs ended so in these slots (one query). ``only``: of these workflows."""
    visible = _names(viewer, workflow)
    wanted = visible if only is None else [name for name in only if visible is None or name in visible]
    among, names = _among(wanted)
    since, until = (_stored(at) for at in (slots[0].since, slots[-1].until))
    return dict(_rows(COUNTS_BY_WORKFLOW.format(among=among), [phase.value, since, until, *names]))


def _rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection().cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def _values(slots: Sequence[TimeSlot]) -> str:
    return ", ".join(f"({place}, %s, %s)" for place in range(len(slots)))


def _edges(slots: Sequence[TimeSlot]) -> list[Any]:
    return [_stored(at) for slot in slots for at in (slot.since, slot.until)]


def _stored(at: datetime) -> Any:
    return Run._meta.get_field("created").get_db_prep_value(at, connection())


def _among(names: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    """Return the condition of runs of these workflows, and its parameters; None: of all."""
    if names is None:
        return "", ()
    return f" AND r.workflow IN ({', '.join(['%s'] * len(names)) or 'NULL'})", names


def _names(viewer: Viewer, workflow: str) -> list[str] | None:
    """Return the workflows to count, None for all."""
    if workflow:
        return [workflow]
    if "see" in viewer.rights.get(EVERY, frozenset()):
        return None
    return sorted(name for name, rights in viewer.rights.items() if "see" in rights)
