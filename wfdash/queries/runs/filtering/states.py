"""What ``is:`` finds in the list of runs: how people altered a run, and whether anyone can take it."""

from __future__ import annotations

from django.db.models import BooleanField, F, Func, Q
from django.db.models.functions import Now
from django.db.models.lookups import Contains, IsNull, LessThanOrEqual

from checkpoints.database.living_workers import served_workflows
from checkpoints.records import Phase, Status
from checkpoints.rules import TIMED
from wfdash.queries.runs.filtering.conditions import SearchContext, any_of, either, started_by, status_filter
from wfdash.queries.runs.filtering.expressions import (
    RUNS,
    AccessPath,
    Condition,
    IndexScan,
    NoIndex,
    Root,
    in_values,
    on_run,
)
from wfdash.queries.search.language import Term


def is_in_state(asker: SearchContext, term: Term) -> Condition:
    """Return the condition of ``is:altered,mine``."""
    return any_of([_state(asker, value.lower()) for value in term.values])


def _state(asker: SearchContext, state: str) -> Condition:
    if state == "mine":
        return started_by(asker, Term(key="by", values=("me",)))
    if state == "unserved":
        return _unserved()
    if state == "forked":
        routes = (AccessPath(ways=(IndexScan(root=RUNS, where=Q(forked_from__isnull=False)),)),)
        return Condition(holds=lambda root: Q(IsNull(NoIndex(f"{root.run}forked_from"), False)), routes=routes)
    # Said in the statement itself: only so does SQLite know that the index of altered runs will do.
    altered = Func(F("altered"), template="%(expressions)s > ''", output_field=BooleanField())
    ways = (IndexScan(root=RUNS, where=Q(altered)),)
    named = "" if state == "altered" else state
    return Condition(
        holds=lambda root: on_run(root, "altered", Contains, named) & ~in_values(root, "altered", [""]),
        routes=(AccessPath(ways=ways, exact=not named),),
    )


def _unserved() -> Condition:
    """Return the condition of the runs that are due and that no running worker serves (two queries)."""
    served = served_workflows()
    timed = [phase.value for phase in sorted(TIMED)]

    def holds(root: Root) -> Q:
        if served is None:
            return either(())
        wake = NoIndex(f"{root.run}wake_at")
        woken = in_values(root, "phase", timed) & Q(IsNull(wake, False)) & Q(LessThanOrEqual(wake, Now()))
        due = woken | either(status_filter(status.value, root) for status in (Status.QUEUED, Status.INTERRUPTED))
        return due & in_values(root, "for_workers", [True]) & ~in_values(root, "workflow", sorted(served))

    ready, woken = Q(phase=Phase.READY.value), Q(wake_at__isnull=False, wake_at__lte=Now())
    ways = (IndexScan(root=RUNS, where=ready), IndexScan(root=RUNS, where=woken, orders=frozenset()))
    return Condition(holds=holds, routes=(AccessPath(ways=ways, exact=False),))
