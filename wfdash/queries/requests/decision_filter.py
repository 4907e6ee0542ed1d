"""What the list of decisions can be filtered by, and how a decision turned out. Charts count by the same conditions.

A decision is an answered request. It is never distinguished by the person who gave it.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Case, CharField, Exists, OuterRef, Q, Value, When

from checkpoints.models import FOR_PEOPLE, HumanRequest, Reply
from wfdash.access.viewer import REQUESTER, Viewer
from wfdash.queries.requests.qualifiers import KIND, in_names
from wfdash.queries.search.common_qualifiers import WORKFLOW
from wfdash.queries.search.conditions import FilterContext, SplitCondition, ToQ, equals, lies_in, split_condition
from wfdash.queries.search.json_names import NamesAny, NamesBeyond, NamesEmpty
from wfdash.queries.search.language import SIGNS, Term
from wfdash.queries.search.qualifiers import ListFilter, Qualifier
from wfdash.queries.search.suggestions import ListedValues, listed
from wfdash.queries.search.times import is_time, times_of

MOST = 2000
"""The latest decisions, from which suggestions are taken."""
COLUMNS = ("workflow", "step", "kind", "by")
LED = frozenset({"answered"})
"""The key whose times an index has the decisions of."""
ANSWERED = Q(answered__isnull=False) & FOR_PEOPLE
BY_DEADLINE = Q(answer__by__isnull=True)
VERDICTS = {"approved": "approve", "edited": "edit", "rejected": "reject"}
OUTCOMES: dict[str, Q] = {
    "deadline": BY_DEADLINE,
    **{name: ~BY_DEADLINE & Q(answer__verdict=verdict) for name, verdict in VERDICTS.items()},
    "other": ~BY_DEADLINE & ~Q(answer__verdict__in=VERDICTS.values()),
}
"""How a request was decided; each is decided in exactly one of these ways."""
AUDIENCES = ("anyone", REQUESTER, "people")


def outcome() -> Case:
    """Return the expression for how a request was decided: a key of ``OUTCOMES``."""
    cases = (When(condition, then=Value(name)) for name, condition in OUTCOMES.items())
    return Case(*cases, default=Value("other"), output_field=CharField())


def reversed_later() -> Q:
    """Return the condition that an answer was undone, or that its question was asked again after a restore."""
    undone = Reply.objects.filter(request=OuterRef("pk"), undone__isnull=False)
    again = HumanRequest.objects.filter(run=OuterRef("run"), key=OuterRef("key"), created__gt=OuterRef("created"))
    return Q(Exists(undone)) | Q(Exists(again))


def filter_decisions(viewer: Viewer, text: str) -> SplitCondition:
    """Return the condition of a filter text; ``Invalid`` names each part that cannot be understood, and its remedy."""
    return split_condition(FILTER, viewer, text, in_names, LED)


def decision_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of decisions suggests (one query)."""
    rows = HumanRequest.objects.filter(ANSWERED, viewer.scope("see")).order_by("-answered", "-id")
    return FILTER.suggestions(ListedValues(columns=COLUMNS, rows=tuple(rows.values_list(*COLUMNS)[:MOST])))


def _answered(context: FilterContext, term: Term, value: str) -> Q:
    return lies_in("answered", times_of(value, term.sign, context.now))


def _asked(context: FilterContext, term: Term, value: str) -> Q:
    if value == "people":
        groups = Group.objects.values_list("name", flat=True)
        return Q(NamesBeyond("by", [*groups, REQUESTER]))
    return Q(NamesEmpty("by")) if value == "anyone" else Q(NamesAny("by", [value]))


QUALIFIERS: tuple[Qualifier[ToQ, ListedValues], ...] = (
    WORKFLOW,
    Qualifier(
        key="step",
        example="step:review",
        meaning="asked by this step",
        suggest=listed("step"),
        condition=equals("step"),
    ),
    KIND,
    Qualifier(
        key="outcome",
        example="outcome:rejected",
        meaning="approved, edited, rejected, other (another answer), or deadline",
        only=("approved", "edited", "rejected", "other", "deadline"),
        condition=lambda context, term, value: OUTCOMES[value.lower()],
    ),
    Qualifier(
        key="answered",
        example="answered:<7d",
        meaning="<7d, >2d, today, 2026-01-31, 2026-01-31T14..2026-02-01",
        accepts=is_time,
        signs=SIGNS,
        values=("<1d", "<7d", "today"),
        condition=_answered,
    ),
    Qualifier(
        key="asked",
        example="asked:finance",
        meaning="addressed to this group, to anyone, to the requester, or to people by name",
        values=AUDIENCES,
        suggest=listed("by"),
        condition=_asked,
    ),
    Qualifier(
        key="is",
        example="is:reversed",
        meaning="reversed: undone, or asked again after a restore",
        only=("reversed",),
        condition=lambda context, term, value: reversed_later(),
    ),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in the subject or workflow name")
