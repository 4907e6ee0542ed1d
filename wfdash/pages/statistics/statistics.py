"""The page of statistics: charts with their tables for a range of days, and current counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from checkpoints.records import Status
from wfdash import queries
from wfdash.domain.histograms import ANYONE, GROUP, NAMED, REQUESTER, Measure
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import RunsAddress
from wfdash.pages.ui.charts import BarChart, LineChart, bar_chart, duration_or_dash, line_chart, nice_count, share
from wfdash.pages.ui.event_text import step_label
from wfdash.queries.statistics.figures import FailureReason, Statistics, Timing, WaitingRequest

RANGES = ((1, "24 hours"), (7, "7 days"), (30, "30 days"))
DEFAULT_DAYS = 7
TICKS = 4
OUTCOMES = (
    (Measure.STARTED, "Started", "is-running"),
    (Measure.COMPLETED, "Completed", "is-completed"),
    (Measure.FAILED, "Failed", "is-failed"),
    (Measure.CANCELLED, "Cancelled", "is-cancelled"),
)
DURATIONS = (
    (Measure.RUN, "Run duration", "is-completed"),
    (Measure.STEP, "Step duration", "is-running"),
    (Measure.DECISION, "Decision time", "is-waiting"),
)
AUDIENCES = {ANYONE: "Any reviewer", REQUESTER: "The requester", NAMED: "People by name"}
ATTENTION = (Status.FAILED, Status.INTERRUPTED, Status.HELD)


@dataclass(frozen=True, kw_only=True)
class StateRow:
    """How many runs have a status, and where they are listed."""

    status: str
    count: str
    bar: float
    href: str


@dataclass(frozen=True, kw_only=True)
class TimedRow:
    """A duration: as text, and as two bars out of a thousand, one within the other."""

    name: str
    workflow: str
    times: str
    p50: str
    p95: str
    mean: str
    half: float
    most: float
    timed: Timing


@dataclass(frozen=True, kw_only=True)
class ReasonRow:
    """Why runs failed, and where they are listed."""

    error: str
    workflow: str
    count: str
    bar: float
    href: str


@page("GET")
def statistics(request: HttpRequest) -> HttpResponse:
    """Show the statistics of ``days`` (1, 7 or 30), of one ``workflow`` or of all that this person may see."""
    days = chosen_days(request.GET.get("days", ""))
    found = queries.statistics(viewer_of(request), days, request.GET.get("workflow", ""))
    titles = queries.titles()
    context: dict[str, Any] = {
        "statistics": found,
        "days": days,
        "ranges": [(n, label, n == days) for n, label in RANGES],
        "workflows": [(name, titles.get(name, name)) for name in found.workflows],
        "unit": "hour" if found.slot < timedelta(days=1) else "day",
        "states": state_rows(found),
        "flows": outcome_charts(found),
        "courses": duration_charts(found),
        "runs": timed_rows(found.runs, titles),
        "steps": timed_rows(found.steps, titles),
        "gates": timed_rows(found.gates, titles),
        "people": timed_rows(found.people, titles),
        "queue": {name: duration_or_dash(getattr(found.queue, name)) for name in ("p50", "p95")},
        "reasons": reason_rows(found.reasons, titles),
        "oldest": named_requests(found.oldest, titles),
    }
    return render(request, "statistics/page.html", context)


def chosen_days(text: str) -> int:
    """Return the requested range; the default for anything else."""
    return next((days for days, _ in RANGES if str(days) == text), DEFAULT_DAYS)


def slot_names(found: Statistics) -> tuple[str, ...]:
    """Return the name of each slot, in UTC: ``Nov 21, 14:00`` or ``Sat Nov 21``."""
    form = "%b %d, %H:%M" if found.slot < timedelta(days=1) else "%a %b %d"
    return tuple(at.strftime(form) for at in found.slots)


def tick_names(slots: Sequence[datetime], slot: timedelta) -> tuple[str, ...]:
    """Return a short label under each slot, of which at most ``TICKS`` are not empty."""
    stride = -(-len(slots) // TICKS)
    form = "%H:%M" if slot < timedelta(days=1) else "%b %d"
    return tuple(at.strftime(form) if place % stride == 0 else "" for place, at in enumerate(slots))


def outcome_charts(found: Statistics) -> tuple[BarChart, ...]:
    """Return started, completed, failed and cancelled runs as charts that share one scale."""
    top = nice_count(max((max(counts, default=0) for counts in found.flow.values()), default=0))
    names, ticks = slot_names(found), tick_names(found.slots, found.slot)
    return tuple(
        bar_chart(measure.value, title, found.flow[measure], names, tone=tone, top=top, ticks=ticks)
        for measure, title, tone in OUTCOMES
    )


def duration_charts(found: Statistics) -> tuple[LineChart, ...]:
    """Return the durations of runs, steps and decisions over time, those that were measured."""
    names, ticks = slot_names(found), tick_names(found.slots, found.slot)
    return tuple(
        line_chart(
            f"{measure.value}-time",
            title,
            (
                ("median", "half", [spread.p50 for spread in found.courses[measure]]),
                ("p95", "most", [spread.p95 for spread in found.courses[measure]]),
            ),
            names,
            tone=tone,
            ticks=ticks,
        )
        for measure, title, tone in DURATIONS
        if any(spread.count for spread in found.courses[measure])
    )


def state_rows(found: Statistics) -> tuple[StateRow, ...]:
    """Return how many runs are in each state, those that need attention first."""
    order = [*ATTENTION, *(status for status in Status if status not in ATTENTION)]
    most = max(found.states.values(), default=0)
    return tuple(
        StateRow(
            status=status.value,
            count=f"{found.states[status]:,}",
            bar=share(found.states[status], most),
            href=runs_address(f"status:{status.value}", found.workflow),
        )
        for status in order
        if found.states.get(status)
    )


def timed_rows(rows: Sequence[Timing], titles: dict[str, str]) -> tuple[TimedRow, ...]:
    """Return rows whose bars share one scale."""
    most = max((row.spread.p95 or 0.0 for row in rows), default=0.0)
    return tuple(
        TimedRow(
            name=name_of(row),
            workflow=titles.get(row.workflow, row.workflow),
            times=f"{row.spread.count:,}",
            p50=duration_or_dash(row.spread.p50),
            p95=duration_or_dash(row.spread.p95),
            mean=duration_or_dash(row.spread.mean),
            half=share(row.spread.p50, most),
            most=share(row.spread.p95, most),
            timed=row,
        )
        for row in rows
    )


def name_of(row: Timing) -> str:
    """Return what was timed, as text; empty for whole runs."""
    if row.label:
        return AUDIENCES.get(row.label, row.label.removeprefix(GROUP))
    return step_label(row.step) if row.step else ""


def reason_rows(rows: Sequence[FailureReason], titles: dict[str, str]) -> tuple[ReasonRow, ...]:
    """Return why runs failed, each with the address of the list of those that did."""
    most = max((row.count for row in rows), default=0)
    return tuple(
        ReasonRow(
            error=row.error,
            workflow=titles.get(row.workflow, row.workflow),
            count=f"{row.count:,}",
            bar=share(row.count, most),
            href=runs_address(f"error:{row.error}" if row.error else "status:failed", row.workflow),
        )
        for row in rows
    )


def runs_address(text: str, workflow: str = "") -> str:
    """Return the address of the runs that a filter finds, of one workflow or of all."""
    return RunsAddress(q=f"{text} workflow:{workflow}" if workflow else text).url()


def named_requests(rows: Iterable[WaitingRequest], titles: Mapping[str, str]) -> list[tuple[WaitingRequest, str, str]]:
    """Return requests, each with its subject (else its step) and the title of its workflow."""
    return [(one, one.subject or step_label(one.step), titles.get(one.workflow, one.workflow)) for one in rows]
