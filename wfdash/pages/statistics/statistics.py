"""The page of statistics: charts with their tables for a range of days, and current counts; each leads to its list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from checkpoints.records import Phase, Status
from wfdash import catalog
from wfdash.domain.histograms import ANYONE, GROUP, NAMED, REQUESTER
from wfdash.pages.requests.decisions import DECIDED
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.filter_links import decisions_address, error_term, runs_address, term
from wfdash.pages.statistics.charts import (
    BY_PEOPLE,
    axis_of,
    decisions_that,
    duration_charts,
    gate_charts,
    outcome_charts,
    runs_that,
)
from wfdash.pages.ui.charts import Cell, duration_or_dash, share
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.times import number
from wfdash.queries.statistics.figures import Statistics, read_statistics
from wfdash.queries.statistics.gates import TREND
from wfdash.records.statistics import DurationSummary, GateRecord, TimingRecord, WaitingRequestRecord
from wfdash.rendering import render

RANGES = ((1, "24 hours"), (7, "7 days"), (30, "30 days"))
DEFAULT_DAYS = 7
AUDIENCES = {
    ANYONE: ("Any reviewer", "anyone"),
    REQUESTER: ("The requester", REQUESTER),
    NAMED: ("People by name", "people"),
}
"""Who was asked -> what that is called, and how it is filtered by."""
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
    """A duration: as text, and as two bars out of a thousand, one within the other. ``cells``: what was counted."""

    name: str
    workflow: str
    href: str
    p50: str
    p95: str
    mean: str
    half: float
    most: float
    cells: tuple[tuple[str, Cell], ...]


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
    days, zone = chosen_days(request.GET.get("days", "")), timezone.get_current_timezone()
    found = read_statistics(viewer_of(request), days, request.GET.get("workflow", ""), zone, examples=False)
    titles, axis = catalog.titles(), axis_of(found)
    context: dict[str, Any] = {
        "statistics": found,
        "days": days,
        "ranges": [(n, label, n == days) for n, label in RANGES],
        "workflows": [(name, titles.get(name, name)) for name in found.workflows],
        "unit": "hour" if found.hourly else "day",
        "states": state_rows(found),
        "flows": outcome_charts(found, axis),
        "courses": duration_charts(found, axis),
        "runs": run_rows(found, titles, axis.whole),
        "steps": step_rows(found, titles, axis.whole),
        "gates": gate_rows(found, titles, axis.whole),
        "trends": gate_charts(found, titles, axis),
        "people": asked_rows(found, axis.whole),
        "queue": {name: duration_or_dash(getattr(found.queue, name)) for name in ("p50", "p95")},
        "reasons": reason_rows(found, titles, axis.whole),
        "oldest": named_requests(found.oldest, titles),
    }
    return render(request, "statistics/page.html", context)


def chosen_days(text: str) -> int:
    """Return the requested range; the default for anything else."""
    return next((days for days, _ in RANGES if str(days) == text), DEFAULT_DAYS)


def state_rows(found: Statistics) -> tuple[StateRow, ...]:
    """Return how many runs are in each state, those that need attention first."""
    order = [*ATTENTION, *(status for status in Status if status not in ATTENTION)]
    most = max(found.states.values(), default=0)
    return tuple(
        StateRow(
            status=status.value,
            count=number(found.states[status]),
            bar=share(found.states[status], most),
            href=runs_address(f"status:{status.value}", workflow=found.workflow),
        )
        for status in order
        if found.states.get(status)
    )


def run_rows(found: Statistics, titles: Mapping[str, str], when: str) -> tuple[TimedRow, ...]:
    """Return the durations of completed runs, by workflow."""
    spreads = [one.spread for one in found.runs]

    def row(one: TimingRecord) -> TimedRow:
        href = runs_that(Phase.COMPLETED.value, one.workflow)(when)
        cells = (("Runs", Cell(text=number(one.count), href=href)),)
        return _timed(one.spread, spreads, titles.get(one.workflow, one.workflow), "", href, cells)

    return tuple(map(row, found.runs))


def step_rows(found: Statistics, titles: Mapping[str, str], when: str) -> tuple[TimedRow, ...]:
    """Return the slowest steps. They lead to the runs of that time which reached them: an execution has no list."""
    spreads = [one.spread for one in found.steps]

    def row(one: TimingRecord) -> TimedRow:
        href = runs_address(term("step", one.step), f"active:{when}", workflow=one.workflow)
        counts = (("Count", one.count), ("Retried", one.retried), ("Failed", one.failed))
        cells = tuple((name, Cell(text=number(count))) for name, count in counts)
        return _timed(
            one.spread,
            spreads,
            step_label(one.step, one.workflow),
            titles.get(one.workflow, one.workflow),
            href,
            cells,
        )

    return tuple(map(row, found.steps))


def gate_rows(found: Statistics, titles: Mapping[str, str], when: str) -> tuple[TimedRow, ...]:
    """Return how each question was decided, each number with its list, and how long people took."""
    gates = found.decisions.gates
    spreads = [gate.spread for gate in gates]

    def row(gate: GateRecord) -> TimedRow:
        workflow = titles.get(gate.workflow, gate.workflow)
        cells = tuple((DECIDED[kind], _decided(gate, kind, when)) for kind in TREND)
        return _timed(
            gate.spread, spreads, step_label(gate.step, gate.workflow), workflow, decisions_that("", gate)(when), cells
        )

    return tuple(map(row, gates))


def asked_rows(found: Statistics, when: str) -> tuple[TimedRow, ...]:
    """Return the time to decision by who was asked: groups, never single people."""
    ordered = sorted(found.decisions.asked.items(), key=lambda one: (-one[1].count, one[0]))
    spreads = [spread for _, spread in ordered]

    def row(label: str, spread: DurationSummary) -> TimedRow:
        name, value = AUDIENCES.get(label, (label.removeprefix(GROUP), label.removeprefix(GROUP)))
        href = decisions_address(term("asked", value), BY_PEOPLE, f"answered:{when}", workflow=found.workflow)
        return _timed(spread, spreads, name, "", href, (("Decisions", Cell(text=number(spread.count), href=href)),))

    return tuple(row(label, spread) for label, spread in ordered)


def _decided(gate: GateRecord, kind: str, when: str) -> Cell:
    count = gate.total(kind)
    return Cell(text=number(count), href=decisions_that(kind, gate)(when) if count else "")


def _timed(
    spread: DurationSummary,
    among: Iterable[DurationSummary],
    name: str,
    workflow: str,
    href: str,
    cells: tuple[tuple[str, Cell], ...],
) -> TimedRow:
    """Return a row whose bars share one scale with the others."""
    most = max((one.p95 or 0.0 for one in among), default=0.0)
    return TimedRow(
        name=name,
        workflow=workflow,
        href=href,
        p50=duration_or_dash(spread.p50),
        p95=duration_or_dash(spread.p95),
        mean=duration_or_dash(spread.mean),
        half=share(spread.p50, most),
        most=share(spread.p95, most),
        cells=cells,
    )


def reason_rows(found: Statistics, titles: Mapping[str, str], when: str) -> tuple[ReasonRow, ...]:
    """Return why runs failed, each with the address of the list of those that did."""
    most = max((group.count for group in found.failures), default=0)
    return tuple(
        ReasonRow(
            error=group.called,
            workflow=titles.get(group.workflow, group.workflow),
            count=number(group.count),
            bar=share(group.count, most),
            href=runs_address("status:failed", f"finished:{when}", error_term(group.error), workflow=group.workflow),
        )
        for group in found.failures
    )


def named_requests(
    rows: Iterable[WaitingRequestRecord], titles: Mapping[str, str]
) -> list[tuple[WaitingRequestRecord, str, str]]:
    """Return requests, each with its subject (else its step) and the title of its workflow."""
    return [
        (one, one.subject or step_label(one.step, one.workflow), titles.get(one.workflow, one.workflow)) for one in rows
    ]
