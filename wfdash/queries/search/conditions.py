"""Parsed filters as conditions of the ORM: every term and word holds, the values of one term are alternatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from wfdash.access.viewer import Viewer
from wfdash.queries.search.language import Term
from wfdash.queries.search.qualifiers import ListFilter
from wfdash.queries.search.times import Span, moment_of


@dataclass(frozen=True, kw_only=True)
class FilterContext:
    """Who filters, and when."""

    viewer: Viewer
    now: datetime = field(default_factory=timezone.now)


ToQ = Callable[[FilterContext, Term, str], Q]
"""Returns the condition of one value of a term."""


@dataclass(frozen=True, kw_only=True)
class SplitCondition:
    """The condition of a filter. ``along``: an index has just these rows, in the order of the list; ``rest``: what is
    asked of each of them.
    """

    along: Q
    rest: Q

    @property
    def whole(self) -> Q:
        """The condition of the filter."""
        return self.along & self.rest


def condition_of(known: ListFilter[ToQ, Any], viewer: Viewer, text: str, word: Callable[[str], Q]) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return split_condition(known, viewer, text, word, frozenset()).whole


def split_condition(
    known: ListFilter[ToQ, Any], viewer: Viewer, text: str, word: Callable[[str], Q], led: frozenset[str]
) -> SplitCondition:
    """Return the condition of a filter text, where an index leads to a value of the keys ``led``. ``Invalid``."""
    wanted, context, along, found = known.parse(text), FilterContext(viewer=viewer), Q(), Q()
    for term in wanted.terms:
        one = reduce(or_, (known[term.key].condition(context, term, value) for value in term.values))
        if term.key in led and not term.negated and len(term.values) == 1 and not term.values[0].endswith("*"):
            along &= one
        else:
            found &= ~one if term.negated else one
    for text_ in wanted.words:
        found &= word(text_)
    for text_ in wanted.unwanted:
        found &= ~word(text_)
    return SplitCondition(along=along, rest=found)


def edge_of(rows: QuerySet[Any, Any], column: str, reach: int) -> Any:
    """Return a column of the row before which ``reach`` rows come; None if there are not so many (one query)."""
    return rows.values_list(column, flat=True)[reach : reach + 1].first()


def equals(column: str) -> ToQ:
    """Return how a column is compared as a whole."""
    return lambda context, term, value: Q(**{column: value})


def equals_or_begins(column: str) -> ToQ:
    """Return how a column is compared: as a whole, or with ``*`` by how it begins."""
    return lambda context, term, value: (
        Q(**{f"{column}__startswith": value[:-1]}) if value.endswith("*") else Q(**{column: value})
    )


def lies_in(column: str, span: Span) -> Q:
    """Return the condition that a moment lies in a span: from its start until before its end."""
    since, until = span
    least = Q(**{f"{column}__gte": since}) if since else Q()
    return least & (Q(**{f"{column}__lt": until}) if until else Q())


def comes(column: str, context: FilterContext, term: Term, value: str) -> Q:
    """Return the condition that a moment comes by a bound (``<4h``, ``2030-01-31``), or after it (``>2d``)."""
    bound = moment_of(value, context.now)
    return Q(**{f"{column}__isnull": False, f"{column}__{'gt' if term.sign == '>' else 'lte'}": bound})
