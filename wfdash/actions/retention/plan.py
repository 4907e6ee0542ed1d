"""What retention would remove now, and what keeps the other old runs, for people to look at before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Min

from checkpoints.database.clock import database_now
from wfdash.actions.retention.runs import KEPT_BY, free_to_go, old_runs
from wfdash.installation.keep_rules import KeepRules

REASONS: Mapping[str, str] = {
    "tag": "the tag keep",
    "family": "an open run of the same family",
    "claim": "a worker that has it",
    "unread": "statistics or webhooks that have not read its end",
    "unsent": "a notification that is still to be sent",
}


@dataclass(frozen=True, kw_only=True)
class WorkflowPlan:
    """The runs of a workflow that go: how many, and when the first and the last of them ended."""

    workflow: str
    days: float | None
    runs: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, kw_only=True)
class RetentionPlan:
    """What goes, by workflow, and how many old runs stay, by what keeps them; one may have several reasons."""

    removed: tuple[WorkflowPlan, ...]
    kept: Mapping[str, int]

    @property
    def runs(self) -> int:
        """Return how many runs go."""
        return sum(one.runs for one in self.removed)


def plan_removal(rules: KeepRules) -> RetentionPlan:
    """Return what would be removed now. Reads every old run, and changes nothing."""
    old = old_runs(rules, database_now())
    groups = free_to_go(old).order_by("workflow").values_list("workflow")
    rows = groups.annotate(Count("pk"), Min("finished"), Max("finished"))
    kept = {REASONS[name]: old.filter(condition()).count() for name, condition in KEPT_BY.items()}
    return RetentionPlan(
        removed=tuple(
            WorkflowPlan(workflow=workflow, days=rules.days(workflow), runs=runs, oldest=oldest, newest=newest)
            for workflow, runs, oldest, newest in rows
        ),
        kept={words: count for words, count in kept.items() if count},
    )
