"""What schedules can be filtered by: one row for each key, with its condition and what is suggested for it."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from checkpoints.models.user_model import has_name
from wfdash.access.viewer import Viewer
from wfdash.queries.search.conditions import FilterContext, ToQ, comes, condition_of, equals_or_begins
from wfdash.queries.search.language import INEQUALITIES, Term
from wfdash.queries.search.qualifiers import ListFilter, Qualifier
from wfdash.queries.search.suggestions import visible_workflows
from wfdash.queries.search.times import day_of, duration_of

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
        key="workflow",
        example="workflow:refund",
        meaning="this workflow; ref* for prefix",
        single=True,
        suggest=visible_workflows,
        condition=equals_or_begins("workflow"),
    ),
    Qualifier(
        key="state",
        example="state:paused",
        meaning="on, paused, or stopped by a problem",
        single=True,
        only=tuple(STATES),
        condition=lambda context, term, value: STATES[value.lower()],
    ),
    Qualifier(
        key="next",
        example="next:<1d",
        meaning="starts a run within a day; >2d: later, <2030-01-31: by that day",
        accepts=lambda value, sign: duration_of(value) is not None or day_of(value) is not None,
        signs=INEQUALITIES,
        values=("<1h", "<1d", "<7d", ">7d"),
        condition=lambda context, term, value: comes("next_at", context, term, value),
    ),
    Qualifier(
        key="owner",
        example="owner:me",
        meaning="starts runs as me, or as this person",
        values=("me",),
        condition=_owner,
    ),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in the schedule or workflow name")


def filter_schedules(viewer: Viewer, text: str) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return condition_of(FILTER, viewer, text, _word)


def schedule_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of schedules suggests (no query)."""
    return FILTER.suggestions(viewer)


def _word(word: str) -> Q:
    return Q(name__icontains=word) | Q(workflow__icontains=word)
