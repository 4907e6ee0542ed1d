"""Failed runs, grouped by workflow and class of error."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet

from checkpoints.database.alias import connection
from checkpoints.database.compiled import statement_of
from checkpoints.models import Run, RunFact
from checkpoints.records import Phase
from wfdash.access.viewer import Viewer
from wfdash.domain.search_attributes import ERROR
from wfdash.queries.runs.listing import failures_of, run_rows
from wfdash.queries.statistics.slots import moment
from wfdash.records.statistics import ErrorGroupRecord

MOST_FAILED = 5_000
"""Failed runs that are grouped, the latest ones."""
MOST_GROUPS = 12
GROUPED = (
    f"SELECT r.workflow, f.text, COUNT(DISTINCT r.id), MIN(r.finished), MAX(r.finished), MAX(r.id)"  # noqa: S608
    f" FROM ({{latest}}) AS r LEFT JOIN {RunFact._meta.db_table} f"
    f" ON f.run_id = r.id AND f.name = '{ERROR}' AND f.text NOT LIKE '%%.%%'"
    f" GROUP BY r.workflow, f.text ORDER BY 3 DESC, 1, 2 LIMIT %s"
)
"""A class with a module is stored twice, with and without it: the latter counts."""


class ErrorGroup(ErrorGroupRecord):
    """Failed runs of one workflow with the same class of error. ``error``: as in filters, empty where unknown."""

    failure: tuple[str, str] = ("", "")
    """The latest error's class and message, as far as the viewer may read them."""

    @property
    def called(self) -> str:
        """Return the class as the error itself names it, without its module; empty where unknown."""
        kind = self.failure[0]
        return kind.rpartition(".")[2] if self.error and kind.lower().endswith(self.error) else self.error

    @property
    def message(self) -> str:
        """Return the latest message, as far as the viewer may read it."""
        return self.failure[1]


def failed_runs(mine: Q, since: datetime, until: datetime | None = None) -> QuerySet[Run]:
    """Return the runs that failed in this time and are failed still, the latest first."""
    found = Run.objects.filter(mine, phase=Phase.FAILED.value, finished__gte=since)
    return (found.filter(finished__lt=until) if until else found).order_by("-finished")


def error_groups(
    viewer: Viewer, failed: QuerySet[Run], most: int = MOST_GROUPS, *, examples: bool = True
) -> tuple[ErrorGroup, ...]:
    """Return the largest groups of the latest ``MOST_FAILED`` of these, each with its latest failure (two queries).

    ``examples``: and with the run that failed so, which takes three more.
    """
    latest = statement_of(failed.values_list("id", "workflow", "finished")[:MOST_FAILED])
    if not latest.sql:
        return ()
    with connection().cursor() as cursor:
        cursor.execute(GROUPED.format(latest=latest.sql), [*latest.params, most])
        groups = cursor.fetchall()
    latest_ids = [example for *_, example in groups]
    failures = failures_of(viewer, latest_ids)
    runs = {row.id: row for row in run_rows(viewer, latest_ids)} if examples else {}
    return tuple(
        ErrorGroup.trusted(
            workflow=workflow,
            error=error or "",
            count=count,
            since=moment(since),
            last=moment(last),
            example=runs.get(example),
            failure=failures.get(example, ("", "")),
        )
        for workflow, error, count, since, last, example in groups
    )
