"""Decisions read one by one, as the database has them: to convert all values of 20,000 rows takes longer than that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import Q, QuerySet

from checkpoints.database.alias import connection
from checkpoints.database.compiled import Placeholder, compiled_rows, filled
from checkpoints.models import HumanRequest
from wfdash.domain.histograms import asked_of
from wfdash.queries.requests.decision_filter import ANSWERED, outcome, reversed_later
from wfdash.queries.statistics.day_figures import DecidedRequest
from wfdash.queries.statistics.slots import moment

DEADLINE = "deadline"
COLUMNS = ("workflow", "step", "outcome", "reversed", "created", "answered", "answer__at", "by")
_ANSWERED: Any = HumanRequest._meta.get_field("answered")


def plain_decisions(
    mine: Q, since: datetime, until: datetime, most: int | None, groups: frozenset[str]
) -> Iterator[DecidedRequest]:
    """Yield the decisions of a time, the latest first, at most so many (one query)."""
    statement = _decisions(mine, most)
    if not statement.sql:
        return
    used = connection()
    with used.cursor() as cursor:
        cursor.execute(statement.sql, filled(statement.params, {"since": since, "until": until}, used))
        rows = cursor.fetchall()
    labels = _labels(groups)
    for workflow, step, how, back, created, answered, given, by in rows:
        decided, seconds = moment(answered), None
        if how != DEADLINE:
            # By when the person gave it, not by when it took effect.
            took = (moment(given) if given else decided) - moment(created)
            seconds = max(took.total_seconds(), 0.0)
        yield DecidedRequest(workflow, step, how, bool(back), decided, seconds, labels(by))


@compiled_rows
def _decisions(mine: Q, most: int | None) -> QuerySet[Any, Any]:
    within = Q(answered__gte=Placeholder("since", _ANSWERED)) & Q(answered__lt=Placeholder("until", _ANSWERED))
    rows = HumanRequest.objects.filter(ANSWERED, mine, within)
    named = rows.annotate(outcome=outcome(), reversed=reversed_later()).order_by("-answered")
    return named.values_list(*COLUMNS)[:most]


def _labels(groups: frozenset[str]) -> Callable[[str], tuple[str, ...]]:
    @cache
    def labels(by: str) -> tuple[str, ...]:
        return asked_of(json.loads(by), groups)

    return labels
