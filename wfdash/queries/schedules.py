"""Reads of schedules."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, F, Min, OuterRef, Q, QuerySet, When
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from checkpoints.models import Claim, Run, RunFact, Schedule
from checkpoints.models.user_model import has_name
from checkpoints.records import Json, Phase, Status, frozen, status_of
from wfdash.access.viewer import Viewer
from wfdash.domain.cron import BadCron, parse
from wfdash.domain.errors import NotFound
from wfdash.engines import catalog
from wfdash.queries.run_names import own_title_of, summary_of
from wfdash.queries.runs.before_acting import without_secrets
from wfdash.queries.search import (
    INEQUALITIES,
    FilterContext,
    KeysetOrder,
    ListFilter,
    Qualifier,
    Term,
    ToQ,
    comes,
    condition_of,
    day_of,
    duration_of,
    equals_or_begins,
    visible_workflows,
)
from wfdash.records.base import Page
from wfdash.records.schedules import ScheduleDetail

ORDER = KeysetOrder(columns=("never", "place", "workflow", "name", "id"))
"""The next to fire first, those that will not fire last, by when they were made."""
FACT = "schedule"
"""The search attribute by which a run is found by its schedule."""


@frozen
class ScheduledRun:
    """A run that a schedule started."""

    id: str
    status: Status
    created: datetime
    created_by: str
    label: str = ""
    """What it is called among runs of its workflow, for this viewer."""


class ScheduleRow(ScheduleDetail):
    """A schedule as pages show it. ``title``: of its workflow; ``ran``: the run that it started last."""

    title: str
    paused: bool
    created: datetime
    ran: ScheduledRun | None = None
    loaded: bool = True
    """Whether its workflow is loaded; if not, no run can be started."""
    may_start: bool = False
    may_operate: bool = False


def read_schedules(
    viewer: Viewer, workflow: str = "", text: str = "", *, cursor: str = "", limit: int = 500, times: bool = True
) -> Page[ScheduleRow]:
    """Return one page of schedules, the next to fire first (two queries).

    ``times``: with the next five of each, which take most of the time.

    ``text`` filters; ``Invalid`` names each part of it that cannot be understood.
    """
    rows = Schedule.objects.filter(viewer.scope("see"), filter_schedules(viewer, text)).select_related("owner")
    rows = rows.filter(workflow=workflow.replace("\0", "")) if workflow else rows
    never = Case(When(next_at__isnull=True, then=1), default=0)
    rows = rows.annotate(never=never, place=Coalesce("next_at", "created"))
    rows = rows.filter(ORDER.after(ORDER.place(cursor)))
    found = list(rows.order_by(*ORDER.columns).defer("message")[: limit + 1])
    more = ORDER.cursor(vars(found[limit - 1])) if len(found) > limit else ""
    found = found[:limit]
    last = _runs_in(viewer, Run.objects.filter(pk__in=[row.last_run for row in found if row.last_run]))
    return Page.trusted(
        items=tuple(_schedule_row(viewer, row, last.get(row.last_run or ""), times=times) for row in found), next=more
    )


def read_schedule(viewer: Viewer, schedule_id: str) -> ScheduleRow:
    """Return one schedule (two queries). ``NotFound``."""
    row = Schedule.objects.filter(viewer.scope("see"), pk=schedule_id).select_related("owner").first()
    if row is None:
        raise NotFound("Schedule not found, or you do not have access")
    last = _runs_in(viewer, Run.objects.filter(pk=row.last_run)) if row.last_run else {}
    message = without_secrets(row.workflow, row.message) if viewer.may("inspect", row.workflow) else None
    return _schedule_row(viewer, row, last.get(row.last_run or ""), message=message)


def runs_of(viewer: Viewer, row: ScheduleRow, limit: int = 10) -> list[ScheduledRun]:
    """Return the last runs a schedule started, newest first (two queries)."""
    facts = RunFact.objects.filter(name=FACT, text=row.id).order_by("-created", "-run")
    ids = list(facts.values_list("run_id", flat=True)[:limit])
    found = _runs_in(viewer, Run.objects.filter(pk__in=ids, workflow=row.workflow))
    return [found[run] for run in ids if run in found]


def schedule_of(viewer: Viewer, run_id: str) -> tuple[str, str] | None:
    """Return id and name of the schedule that started a run; None if none did, or it is gone (one query)."""
    known = RunFact.objects.filter(run_id=run_id, name=FACT).values("text")
    return Schedule.objects.filter(viewer.scope("see"), pk__in=known).values_list("pk", "name").first()


def next_times(viewer: Viewer) -> dict[str, datetime]:
    """Return workflow -> when a schedule starts its next run (one query)."""
    rows = Schedule.objects.filter(viewer.scope("see"), next_at__isnull=False)
    return dict(rows.values_list("workflow").annotate(Min("next_at")).order_by())


def _schedule_row(
    viewer: Viewer, row: Schedule, last: ScheduledRun | None, message: Json = None, times: bool = True
) -> ScheduleRow:
    entry = catalog.find(row.workflow)
    same = ("id", "workflow", "name", "cron", "zone", "missed", "overlap", "paused", "problem", "created")
    moments = ("next_at", "last_at", "passed_at")
    words, upcoming = _cron_of(row, times)
    return ScheduleRow.trusted(
        **{name: getattr(row, name) for name in (*same, *moments)},
        title=(entry.description.title if entry else "") or row.workflow,
        words=words,
        upcoming=upcoming,
        # Stopped: automatically, for the reason in its ``problem``.
        state="paused" if row.paused else "on" if row.next_at else "stopped",
        owner=row.owner.get_username(),
        message=message,
        last_run=last.id if last else None,
        ran=last,
        loaded=entry is not None,
        may_start=viewer.may("start", row.workflow),
        may_operate=viewer.may("operate", row.workflow),
    )


def _cron_of(row: Schedule, times: bool) -> tuple[str, tuple[datetime, ...]]:
    """Return the expression as a sentence, itself if it is no longer valid, and the next five times."""
    try:
        cron = parse(row.cron, row.zone)
    except BadCron:
        return row.cron, ()
    return cron.words, tuple(cron.after(timezone.now(), 5)) if times else ()


def _runs_in(viewer: Viewer, rows: QuerySet[Run]) -> dict[str, ScheduledRun]:
    claim = Claim.objects.filter(run=OuterRef("pk"), epoch__gte=F("run__epoch"))
    found: Iterable[Any] = (
        rows.select_related("created_by")
        .defer("input", "output", "error")
        .annotate(claimed=Exists(claim), claim_live=Exists(claim.filter(expires__gt=Now())))
    )
    return {
        run.pk: ScheduledRun(
            id=run.pk,
            status=status_of(
                Phase.stored(run.phase), claimed=run.claimed, claim_live=run.claim_live, acted_by=run.acted_by
            ),
            created=run.created,
            created_by=run.created_by.get_username() if run.created_by else "",
            label=own_title_of(run) or (summary_of(run) if viewer.may("inspect", run.workflow) else ""),
        )
        for run in found
    }


# What schedules can be filtered by: one row for each key, with its condition and what is suggested for it.

STATES = {
    "on": Q(paused=False, next_at__isnull=False),
    "paused": Q(paused=True),
    "stopped": Q(paused=False, next_at__isnull=True),
}
"""The condition of each ``ScheduleRow.state``."""


def _owner(context: FilterContext, term: Term, value: str) -> Q:
    return has_name(context.viewer.name if value.lower() == "me" else value, through="owner")


QUALIFIERS: tuple[Qualifier[ToQ, Viewer], ...] = (
    Qualifier(
        "workflow",
        "workflow:refund",
        "this workflow; ref* for prefix",
        single=True,
        suggest=visible_workflows,
        condition=equals_or_begins("workflow"),
    ),
    Qualifier(
        "state",
        "state:paused",
        "on, paused, or stopped by a problem",
        single=True,
        only=tuple(STATES),
        condition=lambda context, term, value: STATES[value.lower()],
    ),
    Qualifier(
        "next",
        "next:<1d",
        "starts a run within a day; >2d: later, <2030-01-31: by that day",
        accepts=lambda value, sign: duration_of(value) is not None or day_of(value) is not None,
        signs=INEQUALITIES,
        values=("<1h", "<1d", "<7d", ">7d"),
        condition=comes("next_at"),
    ),
    Qualifier("owner", "owner:me", "starts runs as me, or as this person", values=("me",), condition=_owner),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in the schedule or workflow name")


def filter_schedules(viewer: Viewer, text: str) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return condition_of(FILTER, viewer, text, _word)


def _word(word: str) -> Q:
    return Q(name__icontains=word) | Q(workflow__icontains=word)
