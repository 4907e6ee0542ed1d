"""The charts of the statistics page: names of slots in the reader's zone, and the list that each slot leads to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC

from checkpoints.records import Phase
from wfdash.domain.histograms import Measure
from wfdash.pages.requests.decisions import DECIDED
from wfdash.pages.site.filter_links import decisions_address, runs_address, term
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
from wfdash.queries.search.times import range_text
from wfdash.queries.statistics.figures import STARTED, Statistics
from wfdash.queries.statistics.gates import DEADLINE, REVERSED, TREND, Gate
from wfdash.queries.statistics.slots import Slot

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


def ranges(slots: Sequence[Slot]) -> tuple[str, ...]:
    """Return the filter of each slot's time."""
    return tuple(range_text(slot.since, slot.until) for slot in slots)


def whole_range(found: Statistics) -> str:
    """Return the filter of the time of all slots."""
    return range_text(found.slots[0].since, found.slots[-1].until)


def runs_that(outcome: str, workflow: str) -> Link:
    """Return where a count of runs leads: to those that started, or ended so, in a time."""
    if outcome == STARTED:
        return lambda when: runs_address(f"started:{when}", workflow=workflow)
    return lambda when: runs_address(f"status:{outcome}", f"finished:{when}", workflow=workflow)


def outcome_charts(found: Statistics) -> tuple[BarChart, ...]:
    """Return started, completed, failed and cancelled runs as charts that share one scale."""
    top = nice_count(max((max(counts, default=0) for counts in found.flow.values()), default=0))
    names, ticks, when = slot_names(found), tick_names(found), ranges(found.slots)
    return tuple(
        bar_chart(
            outcome,
            title,
            [
                Series(
                    name=title, counts=found.flow[outcome], links=tuple(map(runs_that(outcome, found.workflow), when))
                )
            ],
            names,
            tone=tone,
            top=top,
            ticks=ticks,
            href=runs_that(outcome, found.workflow)(whole_range(found)),
        )
        for outcome, title, tone in OUTCOMES
    )


def duration_charts(found: Statistics) -> tuple[LineChart, ...]:
    """Return the durations of runs, steps and decisions over time, those that were measured."""
    workflow = found.workflow
    of: tuple[tuple[Measure, str, str, Link], ...] = (
        (Measure.RUN, "Run duration", "is-completed", runs_that(Phase.COMPLETED.value, workflow)),
        (Measure.STEP, "Step duration", "is-running", lambda when: runs_address(f"active:{when}", workflow=workflow)),
        (
            *(Measure.DECISION, "Decision time", "is-waiting"),
            lambda when: decisions_address(BY_PEOPLE, f"answered:{when}", workflow=workflow),
        ),
    )
    return tuple(
        _line_chart(found, measure, title, tone, link)
        for measure, title, tone, link in of
        if any(spread.count for spread in found.courses[measure])
    )


def _line_chart(found: Statistics, measure: Measure, title: str, tone: str, link: Link) -> LineChart:
    spreads = found.courses[measure]
    lines = (("median", "half", [one.p50 for one in spreads]), ("p95", "most", [one.p95 for one in spreads]))
    links = tuple(map(link, ranges(found.slots)))
    key = f"{measure.value}-time"
    return line_chart(key, title, lines, slot_names(found), tone=tone, ticks=tick_names(found), links=links)


def decisions_that(kind: str, gate: Gate) -> Link:
    """Return where a count of a question's decisions leads: to those that were decided so in a time."""
    what = {"": "", REVERSED: f"is:{REVERSED}"}.get(kind, f"outcome:{kind}")
    step = term("step", gate.step)
    return lambda when: decisions_address(what, step, f"answered:{when}", workflow=gate.workflow)


def gate_charts(found: Statistics, titles: dict[str, str]) -> tuple[tuple[BarChart, str, str], ...]:
    """Return how each question was decided over time, in parts, with its workflow and how many were approved."""
    return tuple(
        (_gate_chart(found, gate, place), titles.get(gate.workflow, gate.workflow), approved(gate))
        for place, gate in enumerate(found.decisions.gates)
    )


def approved(gate: Gate) -> str:
    """Return how many of a question's decisions approved, edited or not: ``82 % approved``; empty where none did."""
    agreed = gate.total("approved") + gate.total("edited")
    return f"{agreed / gate.decided:.0%} approved".replace("%", " %") if agreed else ""


def gate_summary(gates: Sequence[Gate], days: int) -> list[tuple[str, str, str, str]]:
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


def _gate_chart(found: Statistics, gate: Gate, place: int) -> BarChart:
    when = ranges(found.slots)
    *series, back = [
        Series(
            name=DECIDED[kind], counts=gate.counts[kind], links=tuple(map(decisions_that(kind, gate), when)), style=kind
        )
        for kind in TREND
    ]
    return bar_chart(
        f"gate-{place}",
        step_label(gate.step, gate.workflow),
        series,
        slot_names(found),
        ticks=tick_names(found),
        links=tuple(map(decisions_that("", gate), when)),
        href=decisions_that("", gate)(whole_range(found)),
        beside=(
            (back.name, [Cell(text=times.number(count), href=back.link(n)) for n, count in enumerate(back.counts)]),
            ("Median", [Cell(text=duration_or_dash(one.p50)) for one in gate.times]),
            ("p95", [Cell(text=duration_or_dash(one.p95)) for one in gate.times]),
        ),
    )
