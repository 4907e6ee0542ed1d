"""What the audit log can be filtered by: one row for each key, with its condition and what is suggested for it."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from checkpoints.models import AuditEntry
from wfdash.access.viewer import Viewer
from wfdash.domain.hash_chain import ACCOUNTS
from wfdash.domain.search_attributes import moment_in
from wfdash.queries.search.common_qualifiers import WORKFLOW
from wfdash.queries.search.conditions import (
    FilterContext,
    SplitCondition,
    ToQ,
    equals,
    equals_or_begins,
    lies_in,
    split_condition,
)
from wfdash.queries.search.language import SIGNS, Term
from wfdash.queries.search.qualifiers import ListFilter, Qualifier
from wfdash.queries.search.suggestions import ListedValues, listed
from wfdash.queries.search.times import is_time, times_of

MOST = 5000
"""The newest entries, of which those that a person may read give suggestions."""
COLUMNS = ("actor", "verb", "workflow")
LED = frozenset({"actor", "workflow", "run", "request"})
"""Keys for a value of which an index has the entries, by their numbers."""


def _actor(context: FilterContext, term: Term, value: str) -> Q:
    return Q(actor=context.viewer.name if value.lower() == "me" else value)


def _at(context: FilterContext, term: Term, value: str) -> Q:
    return lies_in("at", times_of(value, term.sign, context.now))


def _is_moment(value: str, sign: str) -> bool:
    return moment_in(value) is not None


QUALIFIERS: tuple[Qualifier[ToQ, ListedValues], ...] = (
    Qualifier(
        key="actor",
        example="actor:ana",
        meaning="done by this person, or by me",
        values=("me",),
        suggest=listed("actor"),
        condition=_actor,
    ),
    Qualifier(
        key="verb",
        example="verb:answer",
        meaning="what was done: start, answer, restore …",
        suggest=listed("verb"),
        condition=equals("verb"),
    ),
    WORKFLOW,
    Qualifier(
        key="run", example="run:0198*", meaning="ID of a run; 0198* for prefix", condition=equals_or_begins("run")
    ),
    Qualifier(key="request", example="request:0198", meaning="ID of a request", condition=equals("request")),
    Qualifier(
        key="at",
        example="at:<2d",
        meaning="<2d: within two days, >2d: longer ago, today, 2026-01-31, <2026-01-31",
        accepts=is_time,
        signs=SIGNS,
        values=("<1h", "<1d", "<7d", ">7d", "today"),
        condition=_at,
    ),
    Qualifier(
        key="after",
        example="after:2026-01-31",
        meaning="from this day or time on",
        accepts=_is_moment,
        condition=lambda context, term, value: Q(at__gte=moment_in(value)),
    ),
    Qualifier(
        key="before",
        example="before:2026-01-31",
        meaning="before this day or time",
        accepts=_is_moment,
        condition=lambda context, term, value: Q(at__lt=moment_in(value)),
    ),
)
FILTER = ListFilter(
    qualifiers=QUALIFIERS, words="a word in the workflow name; or the exact actor, verb, run ID or request ID"
)


def visible_entries(viewer: Viewer) -> QuerySet[AuditEntry]:
    """Return the entries that a person may read."""
    accounts = Q(verb__in=ACCOUNTS)
    theirs = (viewer.scope("inspect") & ~accounts) | (viewer.scope("admin") & accounts)
    return AuditEntry.objects.filter(theirs | (_own(viewer) & ~accounts) | (_own(viewer, whole=True) & accounts))


def _own(viewer: Viewer, *, whole: bool = False) -> Q:
    """Return the filter of what this person did; with a token, as far as it may read values there."""
    own = Q(actor=viewer.name)
    if viewer.whole:
        return own
    reads = viewer.within is not None and "inspect" in viewer.within.rights and not whole
    return own & viewer.reach() & ~Q(workflow="") if reads else Q(pk__in=[])


def filter_entries(viewer: Viewer, text: str) -> SplitCondition:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return split_condition(FILTER, viewer, text, _word, LED)


def audit_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of the audit log suggests (two queries)."""
    last = AuditEntry.objects.order_by("-n").values_list("n", flat=True).first() or 0
    # By number: for a person who may read few entries, the whole log would be read to find them.
    newest = visible_entries(viewer).filter(n__gt=last - MOST).values_list(*COLUMNS).distinct()
    return FILTER.suggestions(ListedValues(columns=COLUMNS, rows=tuple(newest)))


def _word(word: str) -> Q:
    return Q(verb=word) | Q(actor=word) | Q(workflow__icontains=word) | Q(run=word) | Q(request=word)
