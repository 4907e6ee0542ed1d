"""``wfdash statistics`` and ``wfdash operations``: how runs do, and what needs attention."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from wfdash.cli.api import inputs
from wfdash.cli.api.commands import command
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.statistics import DurationSummary, TimingRecord

RUNS = ("workflow", "count", "failed", "retried", "half_within", "95_percent_within")
STEPS = ("workflow", "step", *RUNS[1:])


def add(commands: Any) -> None:
    """Add the commands."""
    statistics = command(commands, "statistics", _statistics, "show how many runs there are and how long they take")
    statistics.add_argument("--days", type=inputs.days, default=7, help="the last 1 to 30 days (default: 7)")
    statistics.add_argument("--workflow", default="", help="of this workflow")
    operations = command(commands, "operations", _operations, "show what needs attention in workflows you operate")
    operations.add_argument(
        "--days", type=inputs.days, default=1, help="failures of the last 1 to 30 days (default: 1)"
    )


def _statistics(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.statistics(days=options.days, workflow=options.workflow)
    if output.as_json:
        return output.data(found)
    output.line(f"now: {_counts(found.states.items()) or 'no runs'}; {found.waiting} requests wait for people")
    flow = ((name, sum(slots)) for name, slots in found.flow.items())
    output.line(f"last {options.days} days: {_counts(flow) or 'nothing happened'}")
    for head, rows, columns in (("runs", found.runs, RUNS), ("slowest steps", found.steps, STEPS)):
        if rows:
            output.line(f"\n{head}")
            output.rows(rows, columns, shown=_timing)
    return None


def _operations(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.operations(days=options.days)
    if output.as_json:
        return output.data(found)
    counts = {
        "failed": found.failed,
        "held": found.held_count,
        "silent": len(found.stuck),
        "overdue requests": found.overdue_count,
        "unanswerable requests": found.unanswerable_count,
        "waiting for a worker": found.backlog.count,
        "late schedules": len(found.late),
    }
    output.line(_counts(counts.items()) or "Nothing needs attention")
    _section(output, "failures", found.groups, ("workflow", "error", "count", "last"))
    _section(output, "held runs", found.held, ("id", "workflow", "title"))
    _section(output, "overdue requests", found.overdue, ("id", "workflow", "due", "by", "subject"))
    _section(output, "requests no one can answer", found.unanswerable, ("id", "workflow", "by", "subject"))
    _section(output, "workers", found.workers, ("name", "runs", "quiet_since"))
    return None


def _section(output: Output, head: str, rows: Sequence[Any], columns: Sequence[str]) -> None:
    if rows:
        output.line(f"\n{head}")
        output.rows(rows, columns)


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts if count)


def _timing(one: TimingRecord) -> dict[str, Any]:
    times = {"half_within": _seconds(one.spread, "p50"), "95_percent_within": _seconds(one.spread, "p95")}
    return {**one.model_dump(mode="json"), **times}


def _seconds(spread: DurationSummary, name: str) -> str:
    found = getattr(spread, name)
    return "" if found is None else f"{found:.3g} s"
