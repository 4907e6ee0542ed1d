"""The page of statistics, and the operator's home.

Charts have their tables, for a range of days; beside them stand current counts, and each leads to its list. The
operator's home says what fails, waits too long or is stuck, each with the list or the action that helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from checkpoints.records import Pairs, Phase, Status, frozen
from checkpoints.rules import NANOS, money_text
from wfdash.access.viewer import Viewer
from wfdash.actions.statistics import triage_error
from wfdash.domain.errors import Invalid, NotAllowed
from wfdash.engines import catalog
from wfdash.engines.catalog import title_of
from wfdash.installation.keep_rules import days_text
from wfdash.notifications.rendering import render
from wfdash.queries.requests.request import read_assignees
from wfdash.queries.requests.rules import SuggestedRule, suggest
from wfdash.queries.runs.retention import Retention, RetentionPlan, read_retention
from wfdash.queries.search import range_text
from wfdash.queries.statistics.durations import ANYONE, GROUP, NAMED, REQUESTER, Measure
from wfdash.queries.statistics.figures import (
    MOST_FAILED,
    STARTED,
    ErrorGroup,
    Operations,
    Statistics,
    read_operations,
    read_statistics,
)
from wfdash.queries.statistics.gates import DEADLINE, REVERSED, TREND
from wfdash.records.statistics import DurationSummary, GateRecord, TimingRecord, UsageRecord, WaitingRequestRecord
from wfdash.web.pages.requests.batch import DECIDED
from wfdash.web.pages.site.decorators import get_page, post_page, viewer_of
from wfdash.web.pages.site.list_page import InboxAddress, ListLinks, decisions_address, error_term, runs_address, term
from wfdash.web.pages.ui import times
from wfdash.web.pages.ui.charts import (
    Cell,
    Chart,
    Series,
    bar_chart,
    drawn_cell,
    duration_or_dash,
    line_chart,
    nice_count,
    share,
    sparkline,
)
from wfdash.web.pages.ui.event_text import step_label
from wfdash.web.pages.ui.fragments import guide, respond
from wfdash.web.pages.ui.times import number

RANGES = ((1, "24 hours"), (7, "7 days"), (30, "30 days"))
DEFAULT_DAYS = 7
AUDIENCES = {
    ANYONE: ("Any reviewer", "anyone"),
    REQUESTER: ("The requester", REQUESTER),
    NAMED: ("People by name", "people"),
}
"""Who was asked -> what that is called, and how it is filtered by."""
MOST_OLDEST = 5
"""Open requests that the page names; the list of all is a link."""
ATTENTION = (Status.FAILED, Status.INTERRUPTED, Status.HELD)


@frozen
class TimedRow:
    """A row of numbers, with two bars of at most ``WIDTH``, one within the other; or with a chart."""

    name: str
    workflow: str
    href: str
    half: float
    most: float
    cells: tuple[tuple[str, Cell], ...]
    chart: Chart | None = None

    @property
    def numbers(self) -> SafeString:
        """Return the cells as HTML, without a template: a page has hundreds."""
        return SafeString("".join(drawn_cell(cell, name) for name, cell in self.cells))

    @property
    def bars(self) -> SafeString:
        """Return the bars as SVG, without a template."""
        ends = (("most", self.most), ("half", self.half))
        lines = (
            f'<line class="statistics-{name}" x1="4" y1="6" x2="{end / 10.4:.1f}%" y2="6" />' for name, end in ends
        )
        return SafeString(f'<svg class="statistics-spread" aria-hidden="true">{"".join(lines)}</svg>')

    @property
    def head(self) -> list[str]:
        """Return the names of the columns."""
        return [name for name, _ in self.cells]


@get_page
def statistics(request: HttpRequest) -> HttpResponse:
    """Show the statistics of ``days`` (1, 7 or 30), of one ``workflow`` or of all that this person may see.

    ``table`` is the key of a chart: then its numbers alone, each with its list.
    """
    days, zone = chosen_days(request.GET.get("days", "")), timezone.get_current_timezone()
    found = read_statistics(viewer_of(request), days, request.GET.get("workflow", ""), zone, examples=False)
    axis = axis_of(found)
    charts = {
        "flows": outcome_charts(found, axis),
        "usage": usage_charts(found, axis),
        "courses": duration_charts(found, axis),
        "trends": gate_charts(found, axis),
    }
    context: dict[str, Any] = {
        "statistics": found,
        "days": days,
        "ranges": [(n, label, n == days) for n, label in RANGES],
        "workflows": [(name, title_of(name)) for name in found.workflows],
        "unit": "hour" if found.hourly else "day",
    }
    if wanted := request.GET.get("table"):
        chart = next((one for some in charts.values() for one in some if one.key == wanted), None)
        if chart is None:
            raise Http404("These statistics have no such chart")
        return render(request, "statistics/table.html", context | {"chart": chart})
    context |= charts | {
        "names": "|".join(axis.names),
        "times": "|".join(axis.ranges),
        "slots": len(axis.names),
        "states": state_rows(found),
        "used": used_rows(found, axis.whole),
        "runs": run_rows(found, axis.whole),
        "steps": step_rows(found, axis.whole),
        "gates": gate_rows(found, axis.whole, charts["trends"]),
        "people": asked_rows(found, axis.whole),
        "suggested": _suggested(viewer_of(request), found),
        "reasons": reason_rows(found, axis.whole),
        "oldest": found.oldest[:MOST_OLDEST],
        "open": _open_requests(term("workflow", found.workflow) if found.workflow else ""),
    }
    return render(request, "statistics/page.html", context)


def _suggested(viewer: Viewer, found: Statistics) -> SuggestedRule | None:
    """Return a rule for the step of one workflow that approves most; None for all workflows."""
    most = max(found.decisions.gates, key=lambda gate: gate.total("approved"), default=None)
    return suggest(viewer, most.workflow, most.step) if found.workflow and most else None


def chosen_days(text: str) -> int:
    """Return the requested range; the default for anything else."""
    return next((days for days, _ in RANGES if str(days) == text), DEFAULT_DAYS)


def state_rows(found: Statistics) -> list[tuple[str, int, str]]:
    """Return how many runs are in each state and where they are listed, those that need attention first."""
    return [
        (status.value, found.states[status], runs_address(f"status:{status.value}", workflow=found.workflow))
        for status in dict.fromkeys((*ATTENTION, *Status))
        if found.states.get(status)
    ]


def run_rows(found: Statistics, when: str) -> tuple[TimedRow, ...]:
    """Return the durations of completed runs, by workflow."""
    spreads = [one.spread for one in found.runs]

    def row(one: TimingRecord) -> TimedRow:
        href = runs_that(Phase.COMPLETED.value, one.workflow)(when)
        cells = (("Runs", Cell(text=number(one.count), href=href)),)
        return _timed(one.spread, spreads, title_of(one.workflow), "", href, cells)

    return tuple(map(row, found.runs))


def step_rows(found: Statistics, when: str) -> tuple[TimedRow, ...]:
    """Return the slowest steps. They lead to the runs of that time which reached them: an execution has no list."""
    spreads = [one.spread for one in found.steps]

    def row(one: TimingRecord) -> TimedRow:
        href = runs_address(term("step", one.step), f"active:{when}", workflow=one.workflow)
        counts = (("Count", one.count), ("Retried", one.retried), ("Failed", one.failed))
        cells = tuple((name, Cell(text=number(count))) for name, count in counts)
        name = step_label(one.step, one.workflow)
        return _timed(one.spread, spreads, name, title_of(one.workflow), href, cells)

    return tuple(map(row, found.steps))


def gate_rows(found: Statistics, when: str, charts: Iterable[Chart]) -> tuple[TimedRow, ...]:
    """Return how each question was decided, over time and each number with its list, and how long people took.

    Ways in which none was decided have no column.
    """
    kinds = [kind for kind in TREND if any(gate.total(kind) for gate in found.decisions.gates)]

    def row(gate: GateRecord, chart: Chart) -> TimedRow:
        workflow = " · ".join(filter(None, (title_of(gate.workflow), approved(gate))))
        cells = tuple((DECIDED[kind], _decided(gate, kind, when)) for kind in kinds)
        return replace(_timed(gate.spread, (), chart.title, workflow, chart.href, cells), chart=chart)

    return tuple(map(row, found.decisions.gates, charts))


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
        half=share(spread.p50, most),
        most=share(spread.p95, most),
        cells=(
            ("Median", Cell(text=duration_or_dash(spread.p50))),
            ("p95", Cell(text=duration_or_dash(spread.p95))),
            *cells,
        ),
    )


def reason_rows(found: Statistics, when: str) -> tuple[TimedRow, ...]:
    """Return why runs failed, each with the address of the list of those that did."""
    most = max((group.count for group in found.failures), default=0)

    def row(group: ErrorGroup) -> TimedRow:
        terms = ("status:failed", f"finished:{when}", error_term(group.error))
        href, bar = runs_address(*terms, workflow=group.workflow), share(group.count, most)
        return TimedRow(
            name=group.called or "unknown",
            workflow=title_of(group.workflow),
            href=href,
            half=bar,
            most=bar,
            cells=(("Runs", Cell(text=number(group.count), href=href)),),
        )

    return tuple(map(row, found.failures))


# The charts of the statistics page: names of slots in the reader's zone, and the list that each slot leads to.

TICKS = 4
OUTCOMES = (
    (STARTED, "Started", ""),
    (Phase.COMPLETED.value, "Completed", ""),
    (Phase.FAILED.value, "Failed", "is-failed"),
    (Phase.CANCELLED.value, "Cancelled", "is-cancelled"),
)
BY_PEOPLE = f"-outcome:{DEADLINE}"
ANY = "*"
"""In place of the range of a slot, in the address that the script of charts fills in."""
Link = Callable[[str], str]
"""Returns where the range of a slot leads."""


@frozen
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


def outcome_charts(found: Statistics, axis: SlotAxis) -> tuple[Chart, ...]:
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
            to=link(ANY),
            href=link(axis.whole),
        )
        for outcome, title, tone in OUTCOMES
        for link in [runs_that(outcome, found.workflow)]
    )


def usage_charts(found: Statistics, axis: SlotAxis) -> tuple[Chart, ...]:
    """Return the tokens of models, and what they cost, over time; none where no model was used."""
    if not found.usage.total.uses:
        return ()
    link = ListLinks("runs").by_time("tokens:>0", key="active", workflow=found.workflow)
    rows, links, currency = found.usage.times, SlotLinks(link, axis.ranges), found.usage.currency
    tokens = Series(name="Tokens", counts=[row.input_tokens + row.output_tokens for row in rows], links=links)
    cost = Series(name="Cost", counts=[int(Decimal(row.cost or 0) * NANOS) for row in rows], links=links)
    parts = [
        ("In", lambda n: Cell(text=number(rows[n].input_tokens))),
        ("Out", lambda n: Cell(text=number(rows[n].output_tokens))),
    ]
    given: dict[str, Any] = {"ticks": axis.ticks, "href": link(axis.whole), "to": link(ANY)}
    money = partial(
        bar_chart, "cost", "Cost", [cost], axis.names, say=lambda sum_: times.money(money_text(sum_), currency)
    )
    charts = bar_chart("tokens", "Tokens", [tokens], axis.names, say=times.compact, beside=parts, **given)
    return (money(**given), charts) if any(cost.counts) else (charts,)


def used_rows(found: Statistics, when: str) -> list[tuple[str, list[tuple[str, str, UsageRecord]]]]:
    """Return what was used by model, and by workflow with the address of the runs, where there are several."""
    models = [(row.name, "", row) for row in found.usage.models]
    link = partial(runs_address, "tokens:>0", f"active:{when}")
    workflows = [(title_of(row.name), link(workflow=row.name), row) for row in found.usage.workflows]
    return [("Model", models), *([] if found.workflow else [("Workflow", workflows)])]


def duration_charts(found: Statistics, axis: SlotAxis) -> tuple[Chart, ...]:
    """Return the durations of runs, steps and decisions over time, those that were measured."""
    workflow, runs, decisions = found.workflow, ListLinks("runs"), ListLinks("decisions")
    of: tuple[tuple[Measure, str, Link], ...] = (
        (Measure.RUN, "Run duration", runs_that(Phase.COMPLETED.value, workflow)),
        (Measure.STEP, "Step duration", runs.by_time(key="active", workflow=workflow)),
        (Measure.DECISION, "Decision time", decisions.by_time(BY_PEOPLE, key="answered", workflow=workflow)),
    )
    return tuple(
        line_chart(
            f"{measure.value}-time",
            title,
            (("median", "half", [one.p50 for one in spreads]), ("p95", "most", [one.p95 for one in spreads])),
            axis.names,
            ticks=axis.ticks,
            links=SlotLinks(link, axis.ranges),
            to=link(ANY),
        )
        for measure, title, link in of
        for spreads in [found.courses[measure]]
        if any(spread.count for spread in spreads)
    )


def decisions_that(kind: str, gate: GateRecord, address: ListLinks | None = None) -> Link:
    """Return where a count of a question's decisions leads: to those that were decided so in a time."""
    what = {"": "", REVERSED: f"is:{REVERSED}"}.get(kind, f"outcome:{kind}")
    step, decisions = term("step", gate.step), address or ListLinks("decisions")
    return decisions.by_time(what, step, key="answered", workflow=gate.workflow)


def gate_charts(found: Statistics, axis: SlotAxis) -> tuple[Chart, ...]:
    """Return how each question was decided over time, in parts."""
    address = ListLinks("decisions")
    return tuple(_gate_chart(gate, axis, address) for gate in found.decisions.gates)


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


def _gate_chart(gate: GateRecord, axis: SlotAxis, address: ListLinks) -> Chart:
    def links(kind: str) -> SlotLinks:
        return SlotLinks(decisions_that(kind, gate, address), axis.ranges)

    *series, back = [
        Series(name=DECIDED[kind], counts=gate.counts[kind], links=links(kind), style=kind) for kind in TREND
    ]
    return bar_chart(
        f"gate-{crc32(f'{gate.workflow}/{gate.step}'.encode()):x}",
        step_label(gate.step, gate.workflow),
        series,
        axis.names,
        ticks=axis.ticks,
        links=links(""),
        to=links("").link(ANY),
        href=links("").link(axis.whole),
        beside=(
            (back.name, lambda n: Cell(text=number(back.counts[n]), href=back.link(n))),
            ("Median", lambda n: Cell(text=duration_or_dash(gate.times[n].p50))),
            ("p95", lambda n: Cell(text=duration_or_dash(gate.times[n].p95))),
        ),
    )


@frozen
class WorkflowRule:
    """A workflow with its rule. ``due``: how many of its runs go now, the first of which ended at ``oldest``.

    ``known``: it has a page; a rule may name any workflow.
    """

    name: str
    title: str
    kept: str
    own: bool
    known: bool
    due: str
    oldest: datetime | None


@get_page
def retention(request: HttpRequest) -> HttpResponse:
    """Show the rule of each workflow that this person operates, what goes now, what stays and what went last."""
    found = read_retention(viewer_of(request))
    context = {
        "retention": found,
        "rules": rules_of(found),
        "default": days_text(found.rules.default),
        "due": due_text(found.plan),
        "kept": [(number(count), words) for words, count in found.plan.kept.items()],
        "tagged": runs_address("tag:keep"),
        "guide": guide("retention"),
    }
    return render(request, "statistics/retention.html", context)


def due_text(plan: RetentionPlan) -> str:
    """Return how many runs go now, as text; with a plus where only the oldest were looked at."""
    return f"{number(plan.runs)}{'+' if plan.more else ''} run{'' if plan.runs == 1 and not plan.more else 's'}"


def rules_of(found: Retention) -> list[WorkflowRule]:
    """Return the workflows, those with a rule of their own first; one that is no longer served, if runs of it go."""
    plans = {plan.workflow: plan for plan in found.plan.removed}
    rules = [
        WorkflowRule(
            name=name,
            title=title_of(name),
            kept=days_text(found.rules.days(name)),
            own=name in found.rules.named,
            known=catalog.find(name) is not None or name in plans,
            due=number(plans[name].runs) if name in plans else "",
            oldest=plans[name].oldest if name in plans else None,
        )
        for name in {*found.workflows, *plans}
    ]
    return sorted(rules, key=lambda rule: (not rule.own, rule.title.lower(), rule.name))


RECENT_RANGES = ((1, "24 hours"), (7, "7 days"))
OWNERS = (("", "All errors"), ("me", "Mine"), ("none", "Unassigned"))
MUTES = (("day", "after a day"), ("week", "after a week"), ("version", "in a new version"))
MUTE_BUTTONS = format_html_join("", '<button class="menu-item" name="mute" value="{}">{}</button>', MUTES)
"""Drawn once: they are the same in the menu of every error."""
FRAGMENTS = {"now": "statistics/attention.html", "operators": "statistics/operators.html"}


@dataclass(frozen=True)
class Figure:
    """A number at the top of the page, and what it counts."""

    label: str
    count: str
    href: str


@frozen
class GroupRow:
    """An error group as the page shows it: what failed, the list of its runs, and the preview of a retry."""

    group: ErrorGroup
    error: str
    title: str
    message: str
    runs: str
    retry: str
    bars: SafeString


@get_page
def operations(request: HttpRequest) -> HttpResponse:
    """Show what needs attention in the workflows that this person operates, with failures of 1 or 7 ``days``."""
    viewer = viewer_of(request)
    if not viewer.may_anywhere("operate"):
        raise NotAllowed("Operations are for the operators of a workflow")
    days = 7 if request.GET.get("days") == "7" else 1
    assignee = request.GET.get("assignee", "")
    found = read_operations(viewer, timedelta(days=days), assignee, examples=False)
    figures, slots = figures_of(found, days), slots_of(days)
    context: dict[str, Any] = {
        "operations": found,
        "days": days,
        "ranges": [(given, label, given == days) for given, label in RECENT_RANGES],
        "figures": [one for one in figures if one.count != "0"],
        "assignee": assignee,
        "owners": [(name, label, name == assignee) for name, label in OWNERS],
        "mutes": MUTE_BUTTONS,
        "operators": partial(read_assignees, viewer, {group.workflow for group in found.groups}, "operate"),
        "quiet": [one for one in figures if one.count == "0"],
        "groups": [group_row(group, days, slots) for group in found.groups],
        "overdue": [(one, "") for one in found.overdue],
        "unanswerable": [(one, why_stuck(one)) for one in found.unanswerable],
        "unserved": [
            (title_of(name), number(count), runs_address("is:unserved", workflow=name))
            for name, count in sorted(found.backlog.unserved.items())
        ],
    }
    return respond(request, "statistics/operations.html", context, FRAGMENTS)


@post_page
def operations_error(request: HttpRequest) -> HttpResponse:
    """Assign an error or mute it, and return to where that was done."""
    given = request.POST
    assignee = "" if "drop" in given else given.get("assignee")
    change = {"mute": given["mute"]} if given.get("mute") in ("", *dict(MUTES)) else {"assignee": assignee}
    try:
        triage_error(viewer_of(request), given.get("workflow", ""), given.get("error", ""), **change)
    except Invalid as error:
        messages.error(request, error.errors[0]["msg"])
    return redirect(f"{reverse('wfdash:operations')}?days={7 if given.get('days') == '7' else 1}")


def figures_of(found: Operations, days: int) -> tuple[Figure, ...]:
    """Return the numbers at the top, each with the list of what it counts."""
    failed = f"{number(found.failed)}{'+' if found.failed == MOST_FAILED else ''}"
    return (
        Figure("failed", failed, runs_address("status:failed", f"finished:<{days}d")),
        Figure("stuck", number(len(found.stuck)), "#stuck"),
        Figure("held", number(found.held_count), runs_address("status:held")),
        Figure(
            "no one can answer",
            number(found.unanswerable_count),
            _open_requests("is:unanswerable"),
        ),
        Figure("overdue requests", number(found.overdue_count), _open_requests("is:overdue")),
        Figure("overdue schedules", number(len(found.late)), reverse("wfdash:schedules")),
        Figure("queued", number(found.backlog.count), runs_address("status:queued")),
    )


def slots_of(days: int) -> Pairs:
    """Return the hours of a day, or the days of a week, until now: each as groups count it, and as it is called."""
    now, step = timezone.now(), timedelta(hours=1) if days == 1 else timedelta(days=1)
    slots = [now - step * place for place in range(24 if days == 1 else 8)][::-1]
    if days == 1:
        return tuple((f"{at:%Y-%m-%d %H}", f"{at:%Y-%m-%d %H}:00 UTC") for at in slots)
    return tuple((f"{at:%Y-%m-%d}", times.weekday(at)) for at in slots)


def group_row(group: ErrorGroup, days: int, slots: Pairs) -> GroupRow:
    """Return an error group with the addresses of its runs (the list, and the preview of a retry of all), and how often
    it happened in each of the slots.
    """
    counts = [group.times.get(at, 0) for at, _ in slots]
    titles = [f"{name}: {number(count)}" for (_, name), count in zip(slots, counts, strict=True)]
    label = f"{number(sum(counts))} in the last {'24 hours' if days == 1 else '7 days'}, most {number(max(counts))}"
    terms = ("status:failed", f"finished:<{days}d", error_term(group.error))
    text = " ".join((*terms, term("workflow", group.workflow)))
    return GroupRow(
        group=group,
        error=group.called or "Unknown error",
        title=title_of(group.workflow),
        message=group.message,
        runs=runs_address(*terms, workflow=group.workflow),
        retry=group.error and f"{reverse('wfdash:runs-bulk')}?{urlencode({'verb': 'retry', 'all': 1, 'q': text})}",
        bars=sparkline(label, (), titles, bad=counts),
    )


WHY_STUCK = {"few": "Fewer people than votes needed", "split": "Votes are split", "unknown": "Excludes an unknown name"}


def why_stuck(one: WaitingRequestRecord) -> str:
    """Return why no one can answer a request, in a few words."""
    no_one = f"No one in {', '.join(one.by)}" if one.by else "No one has a role for it"
    return no_one if one.stuck == "nobody" else WHY_STUCK.get(one.stuck, "")


def _open_requests(text: str) -> str:
    return InboxAddress(tab="all", q=text).url()
