"""Failed runs, grouped by workflow and class of error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, FilteredRelation, Max, Min, Q, QuerySet

from checkpoints.models import Run
from checkpoints.records import Phase
from wfdash.access.viewer import Viewer
from wfdash.domain.search_attributes import ERROR
from wfdash.queries.runs.listing import rows_of
from wfdash.queries.runs.rows import RunRow

MOST_FAILED = 5_000
"""Failed runs that are grouped, the latest ones."""
MOST_GROUPS = 12


@dataclass(frozen=True, kw_only=True)
class ErrorGroup:
    """Failed runs of one workflow with the same class of error. ``error``: as in filters, empty where unknown."""

    workflow: str
    error: str
    count: int
    since: datetime
    last: datetime
    example: RunRow | None

    @property
    def called(self) -> str:
        """Return the class as the error itself names it, without its module; empty where unknown."""
        kind = self.failure[0]
        return kind.rpartition(".")[2] if self.error and kind.lower().endswith(self.error) else self.error

    @property
    def message(self) -> str:
        """Return the latest message, as far as the viewer may read it."""
        return self.failure[1]

    @property
    def failure(self) -> tuple[str, str]:
        """Return the latest error's class and message."""
        kind, _, message = (self.example.failure if self.example else "").partition(": ")
        return kind, message


def failed_runs(mine: Q, since: datetime, until: datetime | None = None) -> QuerySet[Run]:
    """Return the runs that failed in this time and are failed still, the latest first."""
    found = Run.objects.filter(mine, phase=Phase.FAILED.value, finished__gte=since)
    return (found.filter(finished__lt=until) if until else found).order_by("-finished")


def error_groups(viewer: Viewer, failed: QuerySet[Run], most: int = MOST_GROUPS) -> tuple[ErrorGroup, ...]:
    """Return the largest groups of the latest ``MOST_FAILED`` of these, each with its latest run as the example."""
    # A class with a module is stored twice, with and without it: one of both counts.
    name = Q(facts__name=ERROR) & ~Q(facts__text__contains=".")
    latest = Run.objects.filter(pk__in=failed.values("pk")[:MOST_FAILED]).order_by()
    rows = latest.alias(kind=FilteredRelation("facts", condition=name)).values_list("workflow", "kind__text")
    found = rows.annotate(
        number=Count("pk", distinct=True), since=Min("finished"), last=Max("finished"), example=Max("pk")
    ).order_by("-number", "workflow", "kind__text")[:most]
    groups = list(found)
    examples = {row.id: row for row in rows_of(viewer, [example for *_, example in groups])}
    return tuple(
        ErrorGroup(
            workflow=workflow, error=error or "", count=count, since=since, last=last, example=examples.get(example)
        )
        for workflow, error, count, since, last, example in groups
    )
