"""The list of decisions: answered requests of workflows that this person may see, the latest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Value, When

from checkpoints.models import FOR_PEOPLE, HumanRequest, Reply
from checkpoints.models.user_model import USERNAME
from checkpoints.rules import rule_name
from wfdash.access.viewer import REQUESTER, Viewer
from wfdash.queries.requests.inbox import KIND, OUTCOME, OUTCOMES, RUN_NAMES, in_names, with_names
from wfdash.queries.search import (
    SIGNS,
    WORKFLOW,
    FilterContext,
    KeysetOrder,
    ListedValues,
    ListFilter,
    NamesAny,
    NamesBeyond,
    NamesEmpty,
    Qualifier,
    SplitCondition,
    Term,
    ToQ,
    edge_of,
    equals,
    is_time,
    lies_in,
    listed,
    split_condition,
)
from wfdash.queries.unreadable import hidden_cards
from wfdash.records.base import ScannedPage
from wfdash.records.requests import DecisionRecord

LATEST = KeysetOrder(columns=("-place", "-id"))
MAX_SCANNED_DECISIONS = 20_000
"""Decisions looked through for one page, and to count them: the latest of the time that a filter names."""
FAR_REACH = 200_000
"""Decisions looked through when a person asks to look further."""
FIELDS = (
    *("id", "run_id", "workflow", "step", "kind", "created", "place"),
    *("verdict", "subject", "outcome", "reversed", "decider", "rule"),
)


def read_decisions(
    viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 50, far: bool = False
) -> ScannedPage[DecisionRecord]:
    """Return one page of decisions, the latest first (at most two queries). ``Invalid`` for an invalid filter.

    No filter looks through more than ``MAX_SCANNED_DECISIONS``, ``FAR_REACH`` with ``far``: a page that found too few
    by then says how far it came, and may be empty.
    """
    wanted, place = filter_decisions(viewer, text), LATEST.place(cursor)
    listed = HumanRequest.objects.annotate(place=F("answered"))
    listed = listed.filter(LATEST.after(place))
    edge = _edge(listed.filter(wanted.along), FAR_REACH if far else MAX_SCANNED_DECISIONS) if wanted.rest else None
    first = listed.filter(_found(viewer, wanted), _until(edge)).order_by("-answered", "-id").values("pk")[: limit + 1]
    # Which ones first, then their answers and runs: PostgreSQL takes words for rare and would read those of all found.
    named = HumanRequest.objects.filter(pk__in=first).annotate(
        place=F("answered"),
        outcome=outcome(),
        reversed=reversed_later(),
        verdict=F("answer__verdict"),
        decider=F(f"answer__by__{USERNAME}"),
        rule=F("answer__rule"),
    )
    run_names = (f"run__{name}" for name in RUN_NAMES)
    found = list(named.order_by("-answered", "-id").values(*FIELDS, *run_names, **hidden_cards()))
    more = LATEST.cursor(found[limit - 1]) if len(found) > limit else ""
    items = tuple(_row(viewer, values) for values in found[:limit])
    if edge is not None and not more:
        # Before every id.
        return ScannedPage.trusted(items=items, next=LATEST.cursor({"place": edge, "id": ""}), reached=edge)
    return ScannedPage.trusted(items=items, next=more)


def count_decisions(viewer: Viewer, text: str = "") -> tuple[int, bool]:
    """Return how many of ``MAX_SCANNED_DECISIONS`` a filter finds, and whether there may be more (two queries)."""
    wanted = filter_decisions(viewer, text)
    edge = _edge(HumanRequest.objects.filter(wanted.along), MAX_SCANNED_DECISIONS) if wanted.rest else None
    rows = HumanRequest.objects.filter(_found(viewer, wanted), _until(edge)).order_by()
    number = rows[: MAX_SCANNED_DECISIONS + 1].count()
    return min(number, MAX_SCANNED_DECISIONS), number > MAX_SCANNED_DECISIONS or edge is not None


def _edge(rows: QuerySet[HumanRequest], reach: int) -> datetime | None:
    """Return when the last decision that is looked through was answered, None if all are looked through."""
    answered = rows.filter(answered__isnull=False).order_by("-answered", "-id")
    found: datetime | None = edge_of(answered, "answered", reach)
    return found


def _until(edge: datetime | None) -> Q:
    return Q() if edge is None else Q(answered__gte=edge)


def _found(viewer: Viewer, wanted: SplitCondition) -> Q:
    return ANSWERED & viewer.scope("see") & wanted.whole


def _row(viewer: Viewer, values: dict[str, Any]) -> DecisionRecord:
    row = with_names(viewer, values)
    row["answered"], row["verdict"] = row.pop("place"), row["verdict"] or ""
    decider, rule = row.pop("decider") or "", rule_name(row.pop("rule"))
    shown = decider == viewer.name or viewer.may("inspect", row["workflow"])
    row["answered_by"] = rule or (decider if shown else "")
    return DecisionRecord.trusted(**row)


# What the list of decisions can be filtered by, and how a decision turned out. Charts count by the same conditions.

MAX_SUGGESTING = 2000
"""The latest decisions, from which suggestions are taken."""
COLUMNS = ("workflow", "step", "kind", "by")
LED = frozenset({"answered"})
"""The key whose times an index has the decisions of."""
ANSWERED = Q(answered__isnull=False) & FOR_PEOPLE
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
    return FILTER.suggestions(ListedValues(columns=COLUMNS, rows=tuple(rows.values_list(*COLUMNS)[:MAX_SUGGESTING])))


def _asked(context: FilterContext, term: Term, value: str) -> Q:
    if value == "people":
        groups = Group.objects.values_list("name", flat=True)
        return Q(NamesBeyond("by", [*groups, REQUESTER]))
    return Q(NamesEmpty("by")) if value == "anyone" else Q(NamesAny("by", [value]))


def _by(context: FilterContext, term: Term, value: str) -> Q:
    """Who decided is shown as the audit log shows it: one's own decisions, and others' where one may inspect."""
    viewer = context.viewer
    if value.lower() == "me":
        return Q(answer__by=viewer.user.pk) & (Q() if viewer.whole else viewer.scope("inspect"))
    return Q(**{f"answer__by__{USERNAME}": value}) & viewer.scope("inspect")


QUALIFIERS: tuple[Qualifier[ToQ, ListedValues], ...] = (
    WORKFLOW,
    Qualifier("step", "step:review", "asked by this step", suggest=listed("step"), condition=equals("step")),
    KIND,
    OUTCOME,
    Qualifier(
        "by",
        "by:me",
        "decided by me, or by this person in workflows whose values you may read",
        values=("me",),
        condition=_by,
    ),
    Qualifier(
        "answered",
        "answered:<7d",
        "<7d, >2d, today, 2026-01-31, 2026-01-31T14..2026-02-01",
        accepts=is_time,
        signs=SIGNS,
        values=("<1d", "<7d", "today"),
        condition=lies_in("answered"),
    ),
    Qualifier(
        "asked",
        "asked:finance",
        "addressed to this group, to anyone, to the requester, or to people by name",
        values=AUDIENCES,
        suggest=listed("by"),
        condition=_asked,
    ),
    Qualifier(
        "is",
        "is:reversed",
        "reversed: undone, or asked again after a restore",
        only=("reversed",),
        condition=lambda context, term, value: reversed_later(),
    ),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in the subject or workflow name")
