"""The charts of the statistics page: names of slots in the reader's zone, and the list that each slot leads to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from checkpoints.records import Phase
from wfdash.domain.histograms import Measure
from wfdash.pages.requests.decisions import DECIDED
from wfdash.pages.site.filter_links import ListLinks, term
from wfdash.pages.ui import times
from wfdash.pages.ui.charts import (
    BarChart,
    Cell,
    LineChart,
    Series,
    bar_chart,
    duration_or_dash,
    line_chart,
    nice_count,
)
from wfdash.pages.ui.event_text import step_label
from wfdash.queries.search.conditions import range_text
from wfdash.queries.statistics.figures import STARTED, Statistics
from wfdash.queries.statistics.gates import DEADLINE, REVERSED, TREND
from wfdash.records.statistics import GateRecord

TICKS = 4
OUTCOMES = (
    (STARTED, "Started", "is-running"),
    (Phase.COMPLETED.value, "Completed", "is-completed"),
    (Phase.FAILED.value, "Failed", "is-failed"),
    (Phase.CANCELLED.value, "Cancelled", "is-cancelled"),
)
BY_PEOPLE = f"-outcome:{DEADLINE}"
Link = Callable[[str], str]
"""Returns where the range of a slot leads."""


@dataclass(frozen=True, kw_only=True)
class SlotAxis:
    """What all charts of a page share: of each slot its name, the label under it, and the filter of its time.

    ``whole``: the filter of all of it.
    """

    names: tuple[str, ...]
    ticks: tuple[str, ...]
    ranges: tuple[str, ...]
    whole: str


@dataclass(frozen=True)
class SlotLinks(Sequence[str]):
    """Where each slot leads, made when it is asked for: most slots of most charts are empty."""

    link: Link
    ranges: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ranges)

    def __getitem__(self, place: Any) -> Any:
        return self.link(self.ranges[place])


def axis_of(found: Statistics) -> SlotAxis:
    """Return what the charts of these statistics share."""
    return SlotAxis(
        names=slot_names(found),
        ticks=tick_names(found),
        ranges=tuple(range_text(slot.since, slot.until) for slot in found.slots),
        whole=range_text(found.slots[0].since, found.slots[-1].until),
    )


def slot_names(found: Statistics) -> tuple[str, ...]:
    """Return the name of each slot: ``2026-11-21 14:00`` or ``Sat 2026-11-21``."""
    name = times.minute if found.hourly else times.weekday
    zones = [(slot.since, slot.since.tzinfo or UTC) for slot in found.slots]
    names = tuple(name(at, zone) for at, zone in zones)
    if len(set(names)) == len(names):
        return names
    # The hour in which the clock is set back is there twice.
    return tuple(f"{name} {times.offset(at, zone)}" for name, (at, zone) in zip(names, zones, strict=True))


def tick_names(found: Statistics) -> tuple[str, ...]:
    """Return a short label under each slot, of which at most ``TICKS`` are not empty: ``14:00`` or ``11-21``."""
    stride = -(-len(found.slots) // TICKS)
    part = slice(11, 16) if found.hourly else slice(5, 10)
    names = (times.minute(slot.since, slot.since.tzinfo or UTC)[part] for slot in found.slots)
    return tuple(name if place % stride == 0 else "" for place, name in enumerate(names))


def runs_that(outcome: str, workflow: str) -> Link:
    """Return where a count of runs leads: to those that started, or ended so, in a time."""
    address = ListLinks("runs")
    if outcome == STARTED:
        return address.by_time(key="started", workflow=workflow)
    return address.by_time(f"status:{outcome}", key="finished", workflow=workflow)


def outcome_charts(found: Statistics, axis: SlotAxis) -> tuple[BarChart, ...]:
    """Return started, completed, failed and cancelled runs as charts that share one scale."""
    top = nice_count(max((max(counts, default=0) for counts in found.flow.values()), default=0))
    return tuple(
        bar_chart(
            outcome,
            title,
            [Series(name=title, counts=found.flow[outcome], links=SlotLinks(link, axis.ranges))],
            axis.names,
            tone=tone,
            top=top,
            ticks=axis.ticks,
            href=link(axis.whole),
        )
        for outcome, title, tone in OUTCOMES
        for link in [runs_that(outcome, found.workflow)]
    )


def duration_charts(found: Statistics, axis: SlotAxis) -> tuple[LineChart, ...]:
    """Return the durations of runs, steps and decisions over time, those that were measured."""
    workflow, runs, decisions = found.workflow, ListLinks("runs"), ListLinks("decisions")
    of: tuple[tuple[Measure, str, str, Link], ...] = (
        (Measure.RUN, "Run duration", "is-completed", runs_that(Phase.COMPLETED.value, workflow)),
        (Measure.STEP, "Step duration", "is-running", runs.by_time(key="active", workflow=workflow)),
        (
            *(Measure.DECISION, "Decision time", "is-waiting"),
            decisions.by_time(BY_PEOPLE, key="answered", workflow=workflow),
        ),
    )
    return tuple(
        _line_chart(found, axis, measure, title, tone, link)
        for measure, title, tone, link in of
        if any(spread.count for spread in found.courses[measure])
    )


def _line_chart(found: Statistics, axis: SlotAxis, measure: Measure, title: str, tone: str, link: Link) -> LineChart:
    spreads = found.courses[measure]
    lines = (("median", "half", [one.p50 for one in spreads]), ("p95", "most", [one.p95 for one in spreads]))
    links = SlotLinks(link, axis.ranges)
    return line_chart(f"{measure.value}-time", title, lines, axis.names, tone=tone, ticks=axis.ticks, links=links)


def decisions_that(kind: str, gate: GateRecord, address: ListLinks | None = None) -> Link:
    """Return where a count of a question's decisions leads: to those that were decided so in a time."""
    what = {"": "", REVERSED: f"is:{REVERSED}"}.get(kind, f"outcome:{kind}")
    step, decisions = term("step", gate.step), address or ListLinks("decisions")
    return decisions.by_time(what, step, key="answered", workflow=gate.workflow)


def gate_charts(found: Statistics, titles: dict[str, str], axis: SlotAxis) -> tuple[tuple[BarChart, str, str], ...]:
    """Return how each question was decided over time, in parts, with its workflow and how many were approved."""
    address = ListLinks("decisions")
    return tuple(
        (_gate_chart(gate, place, axis, address), titles.get(gate.workflow, gate.workflow), approved(gate))
        for place, gate in enumerate(found.decisions.gates)
    )


def approved(gate: GateRecord) -> str:
    """Return how many of a question's decisions approved, edited or not: ``82 % approved``; empty where none did."""
    agreed = gate.total("approved") + gate.total("edited")
    return f"{agreed / gate.decided:.0%} approved".replace("%", " %") if agreed else ""


def gate_summary(gates: Sequence[GateRecord], days: int) -> list[tuple[str, str, str, str]]:
    """Return of each question its name, where its decisions are, how many were approved, and the median time."""
    return [
        (
            step_label(gate.step, gate.workflow),
            decisions_that("", gate)(f"<{days}d"),
            ", ".join(filter(None, (f"{times.number(gate.decided)} decided", approved(gate)))),
            duration_or_dash(gate.spread.p50),
        )
        for gate in gates
    ]


def _gate_chart(gate: GateRecord, place: int, axis: SlotAxis, address: ListLinks) -> BarChart:
    def links(kind: str) -> SlotLinks:
        return SlotLinks(decisions_that(kind, gate, address), axis.ranges)

    *series, back = [
        Series(name=DECIDED[kind], counts=gate.counts[kind], links=links(kind), style=kind) for kind in TREND
    ]
    return bar_chart(
        f"gate-{place}",
        step_label(gate.step, gate.workflow),
        series,
        axis.names,
        ticks=axis.ticks,
        links=links(""),
        href=decisions_that("", gate, address)(axis.whole),
        beside=(
            (back.name, [Cell(text=times.number(count), href=back.link(n)) for n, count in enumerate(back.counts)]),
            ("Median", [Cell(text=duration_or_dash(one.p50)) for one in gate.times]),
            ("p95", [Cell(text=duration_or_dash(one.p95)) for one in gate.times]),
        ),
    )
