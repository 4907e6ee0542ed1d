"""What the inbox can be filtered by: one row for each key, with its condition and what is suggested for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q

from checkpoints.models import FOR_PEOPLE, OPEN, HumanRequest, Presence, RunFact
from checkpoints.models.user_model import USERNAME, has_name
from checkpoints.rules import RISKS
from wfdash.access.viewer import Viewer
from wfdash.domain import search_attributes
from wfdash.engines import catalog
from wfdash.queries.search.conditions import (
    WORKFLOW,
    FilterContext,
    NamesAny,
    ToQ,
    comes,
    condition_of,
    day_of,
    duration_of,
    equals,
)
from wfdash.queries.search.qualifiers import INEQUALITIES, ListedValues, ListFilter, Qualifier, Term, listed

MAX_SUGGESTING = 2000
"""Open requests that suggestions are taken from, newest first."""
COLUMNS = ("workflow", "step", "kind", f"assignee__{USERNAME}", "by")


UNANSWERABLE = Q(Func(F("stuck"), template="%(expressions)s > ''", output_field=BooleanField()))
"""No one can decide it. Said in the statement itself: only so does SQLite know that the index of such requests will
do.
"""


def _is_due(value: str, sign: str) -> bool:
    named = value.lower() in {"today", "overdue", "none", "any"}
    return named or duration_of(value) is not None or day_of(value) is not None


def _due(context: FilterContext, term: Term, value: str) -> Q:
    word, now = value.lower(), context.now
    some = Q(due__isnull=False)
    if word in {"none", "any"}:
        return ~some if word == "none" else some
    if word == "overdue":
        return some & Q(due__lt=now)
    if word == "today":
        return some & Q(due__lt=now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1))
    return comes("due")(context, term, value)


def _age(context: FilterContext, term: Term, value: str) -> Q:
    since = context.now - (duration_of(value) or timedelta())
    return Q(created__gt=since) if term.sign == "<" else Q(created__lte=since)


def _assignee(context: FilterContext, term: Term, value: str) -> Q:
    if value.lower() == "none":
        return Q(assignee__isnull=True)
    if value.lower() == "me":
        return Q(assignee__isnull=False, assignee_id=context.viewer.user.pk)
    return has_name(value, through="assignee")


def _by(context: FilterContext, term: Term, value: str) -> Q:
    mine = [context.viewer.name, *context.viewer.groups]
    return Q(NamesAny("by", mine if value.lower() == "me" else [value]))


def _is(context: FilterContext, term: Term, value: str) -> Q:
    seen = Presence.objects.filter(request=OuterRef("pk"), user_id=context.viewer.user.pk)
    return {
        "overdue": Q(due__isnull=False, due__lt=context.now),
        "unread": ~Q(Exists(seen)),
        "asked": Q(asked__isnull=False),
        "assigned": Q(assignee__isnull=False),
        "unanswerable": UNANSWERABLE,
    }[value.lower()]


KIND: Qualifier[ToQ, ListedValues] = Qualifier(
    key="kind",
    example="kind:approval",
    meaning="approval, choice, question, form …",
    suggest=listed("kind"),
    condition=lambda context, term, value: Q(kind=value.lower()),
)
QUALIFIERS: tuple[Qualifier[ToQ, ListedValues], ...] = (
    WORKFLOW,
    Qualifier(
        key="run",
        example="run:019a…",
        meaning="of the run with this id",
        condition=equals("run_id"),
    ),
    Qualifier(
        key="step",
        example="step:review",
        meaning="this step",
        suggest=listed("step"),
        condition=equals("step"),
    ),
    KIND,
    Qualifier(
        key="risk",
        example="risk:high",
        meaning="high, medium, low or none",
        only=("high", "medium", "low", "none"),
        condition=lambda context, term, value: Q(risk=RISKS.get(value.lower(), 0)),
    ),
    Qualifier(
        key="due",
        example="due:<4h",
        meaning="<4h, >2d, today, overdue, none, any, <2030-01-31",
        accepts=_is_due,
        signs=INEQUALITIES,
        values=("<4h", "<1d", "overdue", "today", "none"),
        condition=_due,
    ),
    Qualifier(
        key="age",
        example="age:>2d",
        meaning=">2d: older, <1h: newer",
        accepts=lambda value, sign: duration_of(value) is not None,
        signs=INEQUALITIES,
        values=(">1d", ">7d", "<1h"),
        condition=_age,
    ),
    Qualifier(
        key="assignee",
        example="assignee:me",
        meaning="me, none, or a user name",
        values=("me", "none"),
        suggest=listed(f"assignee__{USERNAME}"),
        condition=_assignee,
    ),
    Qualifier(
        key="by",
        example="by:finance",
        meaning="addressed to this person or group, or to me",
        values=("me",),
        suggest=listed("by"),
        condition=_by,
    ),
    Qualifier(
        key="is",
        example="is:overdue",
        meaning="overdue, unread, asked, assigned, unanswerable",
        only=("overdue", "unread", "asked", "assigned", "unanswerable"),
        condition=_is,
    ),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in the subject, run title or workflow name")


def filter_requests(viewer: Viewer, text: str) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return condition_of(FILTER, viewer, text, _word)


def request_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of the inbox suggests (one query)."""
    rows = HumanRequest.objects.filter(OPEN & FOR_PEOPLE, viewer.scope("see")).order_by("-created", "-id")
    return FILTER.suggestions(ListedValues(columns=COLUMNS, rows=tuple(rows.values_list(*COLUMNS)[:MAX_SUGGESTING])))


def in_names(word: str) -> Q:
    """Return the condition that the subject or the name of the workflow contains the word."""
    # Null for a headline that cannot be read: it must not make "not this word" neither true nor false.
    return Q(subject__isnull=False, subject__icontains=word) | Q(workflow__icontains=word)


def _word(word: str) -> Q:
    """Return the condition that the subject, or the name or title of the workflow, contains the word, or a word of the
    run's title begins with it.
    """
    lower = word.lower()
    titled = [entry.name for entry in catalog.entries() if lower in (entry.description.title or "").lower()]
    # Asked of each request's own run: the facts of all runs are many more than the open requests.
    begun = RunFact.objects.filter(name=search_attributes.TITLE, text__startswith=search_attributes.folded(word))
    of_run = Q(Exists(begun.filter(run_id=OuterRef("run_id"))))
    return in_names(word) | Q(workflow__in=titled) | of_run
