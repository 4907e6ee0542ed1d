"""Parsed filters as conditions of the ORM: every term and word holds, the values of one term are alternatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q
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


def condition_of(known: ListFilter[ToQ, Any], viewer: Viewer, text: str, word: Callable[[str], Q]) -> Q:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    wanted, context, found = known.parse(text), FilterContext(viewer=viewer), Q()
    for term in wanted.terms:
        one = reduce(or_, (known[term.key].condition(context, term, value) for value in term.values))
        found &= ~one if term.negated else one
    for text_ in wanted.words:
        found &= word(text_)
    for text_ in wanted.unwanted:
        found &= ~word(text_)
    return found


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
