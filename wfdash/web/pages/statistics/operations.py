"""The operator's home: what fails, waits too long or is stuck, each with the list or the action that helps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from wfdash.domain.errors import NotAllowed
from wfdash.engines import catalog
from wfdash.installation.keep_rules import days_text
from wfdash.notifications.rendering import render
from wfdash.queries.runs.retention import Retention, RetentionPlan, read_retention
from wfdash.queries.statistics.figures import MOST_FAILED, ErrorGroup
from wfdash.queries.statistics.operations import Operations, read_operations
from wfdash.records.statistics import WaitingRequestRecord
from wfdash.web.pages.site.decorators import page, viewer_of
from wfdash.web.pages.site.list_page import InboxAddress, error_term, runs_address, term
from wfdash.web.pages.statistics.statistics import named_requests
from wfdash.web.pages.ui.charts import duration_or_dash
from wfdash.web.pages.ui.fragments import guide, respond
from wfdash.web.pages.ui.times import number


@dataclass(frozen=True, kw_only=True)
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


@page("GET")
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
    titles, plans = catalog.titles(), {plan.workflow: plan for plan in found.plan.removed}
    rules = [
        WorkflowRule(
            name=name,
            title=titles.get(name, name),
            kept=days_text(found.rules.days(name)),
            own=name in found.rules.named,
            known=name in titles or name in plans,
            due=number(plans[name].runs) if name in plans else "",
            oldest=plans[name].oldest if name in plans else None,
        )
        for name in {*found.workflows, *plans}
    ]
    return sorted(rules, key=lambda rule: (not rule.own, rule.title.lower(), rule.name))


RANGES = ((1, "24 hours"), (7, "7 days"))
FRAGMENTS = {"now": "statistics/attention.html"}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number at the top of the page. ``tone``: of its status; empty while it is zero."""

    label: str
    count: str
    href: str
    tone: str


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """An error group as the page shows it: what failed, the list of its runs, and the preview of a retry."""

    group: ErrorGroup
    error: str
    title: str
    message: str
    runs: str
    retry: str


@page("GET")
def operations(request: HttpRequest) -> HttpResponse:
    """Show what needs attention in the workflows that this person operates; ``days`` (1 or 7) is how old failures are.

    ``fragment=now`` is everything below the headline.
    """
    viewer = viewer_of(request)
    if not viewer.may_anywhere("operate"):
        raise NotAllowed("Operations are for the operators of a workflow")
    days = 7 if request.GET.get("days") == "7" else 1
    found, titles = read_operations(viewer, timedelta(days=days)), catalog.titles()
    context: dict[str, Any] = {
        "operations": found,
        "days": days,
        "ranges": [(number, label, number == days) for number, label in RANGES],
        "figures": figures_of(found, days),
        "groups": [group_row(group, titles, days) for group in found.groups],
        "held": [(row, titles.get(row.workflow, row.workflow)) for row in found.held],
        "stuck": [
            (one, titles.get(one.run.workflow, one.run.workflow), duration_or_dash(one.usual)) for one in found.stuck
        ],
        "overdue": [(*row, "") for row in named_requests(found.overdue, titles)],
        "unanswerable": [(*row, why_stuck(row[0])) for row in named_requests(found.unanswerable, titles)],
        "delay": {name: duration_or_dash(getattr(found.backlog.delay, name)) for name in ("p50", "p95")},
        "unserved": [
            (titles.get(name, name), number(count), runs_address("is:unserved", workflow=name))
            for name, count in sorted(found.backlog.unserved.items())
        ],
        "late": [(one, titles.get(one.workflow, one.workflow)) for one in found.late],
    }
    return respond(request, "statistics/operations.html", context, FRAGMENTS)


def figures_of(found: Operations, days: int) -> tuple[Figure, ...]:
    """Return the numbers at the top, each with the list of what it counts."""
    failed = f"{number(found.failed)}{'+' if found.failed == MOST_FAILED else ''}"
    return (
        _figure("Failed", found.failed, runs_address("status:failed", f"finished:<{days}d"), "failed", failed),
        _figure("Held", found.held_count, runs_address("status:held"), "held"),
        _figure("Stuck", len(found.stuck), "#stuck", "interrupted"),
        _figure("Overdue requests", found.overdue_count, _open_requests("is:overdue"), "waiting"),
        _figure("No one can answer", found.unanswerable_count, _open_requests("is:unanswerable"), "held"),
        _figure("Queued", found.backlog.count, runs_address("status:queued"), "queued"),
        _figure("Overdue schedules", len(found.late), reverse("wfdash:schedules"), "failed"),
    )


def group_row(group: ErrorGroup, titles: dict[str, str], days: int) -> GroupRow:
    """Return an error group with the addresses of its runs: the list, and the preview of a retry of all."""
    terms = ("status:failed", f"finished:<{days}d", error_term(group.error))
    text = " ".join((*terms, term("workflow", group.workflow)))
    return GroupRow(
        group=group,
        error=group.called or "Unknown error",
        title=titles.get(group.workflow, group.workflow),
        message=group.message,
        runs=runs_address(*terms, workflow=group.workflow),
        retry=f"{reverse('wfdash:runs-bulk')}?{urlencode({'verb': 'retry', 'all': 1, 'q': text})}"
        if group.error
        else "",
    )


def why_stuck(one: WaitingRequestRecord) -> str:
    """Return why no one can answer a request, in a few words."""
    return {
        "nobody": f"No one in {', '.join(one.by)}" if one.by else "No one has a role for it",
        "few": "Fewer people than votes needed",
        "split": "Votes are split",
        "unknown": "Excludes an unknown name",
    }.get(one.stuck, "")


def _figure(label: str, count: int, href: str, tone: str, text: str = "") -> Figure:
    return Figure(label=label, count=text or number(count), href=href, tone=f"is-{tone}" if count else "")


def _open_requests(text: str) -> str:
    return InboxAddress(tab="all", q=text).url()
