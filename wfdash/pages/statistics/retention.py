"""For how long ended runs are kept, which of them go now, and what keeps the others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse

from wfdash import catalog
from wfdash.installation.keep_rules import days_text
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.filter_links import runs_address
from wfdash.pages.ui.documentation import guide
from wfdash.pages.ui.times import number
from wfdash.queries.runs.retention import Retention, RetentionPlan, read_retention
from wfdash.rendering import render


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
