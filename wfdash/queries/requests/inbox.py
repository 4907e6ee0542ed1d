"""Lists of requests and their filter: those that wait for this person, all open ones, and those they answered.

Of 10,000 open requests a list reads only those it shows: the rest is decided within one index. The filter has one row
for each key, with its condition and what is suggested for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, get_args

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from checkpoints.database.compiled import (
    Among,
    Literally,
    Placeholder,
    Statement,
    compiled,
    compiled_condition,
    compiled_filter,
    compiled_rows,
    count_each,
    statement_of,
)
from checkpoints.models import FOR_PEOPLE, OPEN, HumanRequest, Presence, Reply, RunFact
from checkpoints.models.fields import JsonRows, MomentField, StoredSize
from checkpoints.models.user_model import USERNAME, has_name
from checkpoints.records import Json
from checkpoints.rules import RISKS, rule_name
from wfdash.access.viewer import Viewer, origin_of
from wfdash.domain import search_attributes
from wfdash.domain.errors import Invalid
from wfdash.domain.labels import visible
from wfdash.domain.search_attributes import CARD_NAME, FieldValue, card_field
from wfdash.engines import catalog
from wfdash.queries.requests import request
from wfdash.queries.requests.request import PRESENCE_TIMEOUT
from wfdash.queries.run_names import run_in, title_of
from wfdash.queries.search import (
    INEQUALITIES,
    WORKFLOW,
    FilterContext,
    KeysetOrder,
    ListedValues,
    ListFilter,
    NamesAny,
    Qualifier,
    RowExists,
    Term,
    ToQ,
    comes,
    condition_of,
    day_of,
    duration_of,
    equals,
    listed,
)
from wfdash.queries.timemachine import secrets_in
from wfdash.queries.unreadable import LARGEST_LISTED, hidden_cards, is_readable, subject_in
from wfdash.questions.policy import HIGH_RISK
from wfdash.records.base import Page
from wfdash.records.requests import RequestSummary, Tab
from wfdash.values.schemas.secrets import HIDDEN

# How many requests saved views hold: counted up to a limit, all in one query.


def count_in_views(viewer: Viewer, wanted: Sequence[tuple[str, str]], most: int) -> list[int | None]:
    """Return how many requests each tab has under a filter (one query), at most ``most``; None for an invalid filter.

    Of each no more rows are read than that, so that a view of ten thousand costs what one of a hundred does.
    """
    parts = [_limited(viewer, tab, text, most) for tab, text in wanted]
    numbers = iter(count_each([part for part in parts if part]))
    return [next(numbers) if part else None for part in parts]


def _limited(viewer: Viewer, tab: str, text: str, most: int) -> Statement | None:
    """Return a statement for the first rows of a view; None for an invalid filter."""
    try:
        rows = HumanRequest.objects.filter(in_tab(viewer, tab), filter_requests(viewer, text))
    except Invalid:
        return None
    return statement_of(rows.order_by().values("pk")[:most])


SORTS = ("age", "due", "risk", "alike")
RISK_NAMES = {number: word for word, number in RISKS.items()}
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
PENDING = Q(closed__isnull=True, answered__isnull=True)
"""Open, or decided and not yet in effect."""
MIN_SIMILAR = 3
"""The number of similar requests from which a batch is offered."""
NEWEST = KeysetOrder(columns=("-place", "-id"))
ORDERS = {
    "age": KeysetOrder(columns=("created", "id")),
    "due": KeysetOrder(columns=("place", "id")),
    "risk": KeysetOrder(columns=("-risk", "created", "id")),
    "alike": KeysetOrder(columns=("workflow", "step", "kind", "created", "id")),
}

Gate = tuple[str, str, str]
"""Workflow, step and kind: what asks."""


class RequestRow(RequestSummary):
    """A request in a list, as pages show it: metadata and the card's headline, never values."""

    settles: datetime | None = None
    """Decided; takes effect at this time."""
    snoozed: datetime | None = None
    """Until when this person does not want it in their queue."""
    asked: datetime | None = None
    """Since when it waits for its requester's reply."""
    assignee: str = ""
    unread: bool = False
    here: tuple[str, ...] = ()
    """Other people who have it open."""
    stuck: str = ""
    """Why no one can decide it, as a code; empty where someone can."""

    @property
    def gate(self) -> Gate:
        """Return what asks."""
        return self.workflow, self.step, self.kind

    @property
    def open(self) -> bool:
        """Return whether it still waits for an answer."""
        return self.answered is None and self.settles is None and not self.closed_as


def read_inbox(
    viewer: Viewer, tab: str = "mine", text: str = "", *, sort: str = "age", cursor: str = "", limit: int = 50
) -> Page[RequestRow]:
    """Return one page of a tab (two queries): oldest first, nearest deadline, highest risk, or similar ones together.

    The answered tab is newest answer first. ``Invalid`` for an invalid filter.
    """
    order = _order(tab, sort)
    if text or cursor:
        found = list(_sort_keys(viewer, tab, text, order).filter(order.after(order.place(cursor)))[: limit + 1])
    else:
        found = list(first_keys(viewer, tab, order, limit + 1).all())
    more = order.cursor(found[limit - 1]) if len(found) > limit else ""
    return Page.trusted(items=_rows_of(viewer, [place["id"] for place in found[:limit]]), next=more)


def read_neighbours(
    viewer: Viewer, request_id: str, tab: str, text: str = "", *, sort: str = "age"
) -> tuple[str, str, int]:
    """Return the ids before and after a request in a list, empty at its ends, and its number (five queries).

    The number counts from 1, and is 0 where the request is not in the list any more: its neighbours are found still.
    """
    order = _order(tab, sort)
    here = _place_of(viewer, request_id, tab, order)
    if here is None:
        return "", "", 0
    listed = _sort_keys(viewer, tab, text, order)
    earlier = listed.filter(order.backwards().after(here))
    ends = earlier.order_by(*order.backwards().columns).first(), listed.filter(order.after(here)).first()
    before, after = (row["id"] if row else "" for row in ends)
    return before, after, earlier.count() + 1 if listed.filter(pk=request_id).exists() else 0


def next_request(viewer: Viewer, request_id: str, tab: str, text: str = "", *, sort: str = "age") -> str:
    """Return the request after this one: the next of the list, at its end the first; empty if none is left."""
    order = _order(tab, sort)
    here = _place_of(viewer, request_id, tab, order)
    others = _sort_keys(viewer, tab, text, order).exclude(pk=request_id)
    found = (others.filter(order.after(here)).first() if here else None) or others.first()
    return found["id"] if found else ""


def request_rows(viewer: Viewer, ids: Iterable[str]) -> tuple[RequestRow, ...]:
    """Return the rows of these requests, in their order (one query); those they may not see are left out."""
    return _rows_of(viewer, list(ids))


def count_since(viewer: Viewer, tab: str, text: str, since: datetime, known: Sequence[str] | None = None) -> int:
    """Return how many requests of a tab are new (one query): opened after a time, or not in ``known``.

    ``known`` is the list that is shown, if that is the whole of it. An old request may be new to a person: escalated.
    """
    rows = HumanRequest.objects.filter(in_tab(viewer, tab), filter_requests(viewer, text))
    return (rows.filter(created__gt=since) if known is None else rows.exclude(pk__in=known)).count()


def count_similar_shown(rows: Iterable[RequestRow]) -> dict[Gate, int]:
    """Return how many of these rows each gate asks, where there are several; high risks are decided separately."""
    counted = Counter(row.gate for row in rows if row.open and row.risk != "high")
    return {gate: number for gate, number in counted.items() if number >= MIN_SIMILAR}


def count_similar(viewer: Viewer, tab: str, text: str, rows: Iterable[RequestRow]) -> dict[Gate, int]:
    """Return how many requests of a tab the gates of these rows ask, where there are several (one query)."""
    gates = {row.gate for row in rows if row.open}
    if not gates:
        return {}
    wanted = reduce(or_, (Q(workflow=workflow, step=step, kind=kind) for workflow, step, kind in sorted(gates)))
    low = HumanRequest.objects.filter(wanted, risk__lt=HIGH_RISK)
    found = low.filter(in_tab(viewer, tab), filter_requests(viewer, text))
    counted = found.values_list("workflow", "step", "kind").annotate(number=Count("pk")).order_by()
    return {(row[0], row[1], row[2]): row[3] for row in counted if row[3] >= MIN_SIMILAR}


def requests_of(viewer: Viewer, run_id: str, limit: int = 200) -> tuple[RequestRow, ...]:
    """Return a run's requests, newest first, answered and closed ones included (two queries)."""
    rows = HumanRequest.objects.filter(viewer.scope("see"), run_id=run_id).order_by("-created", "-id")
    return _rows_of(viewer, list(rows.values_list("id", flat=True)[:limit]))


def request_to_answer(viewer: Viewer, run_id: str) -> str:
    """Return the id of a run's open request that this person should answer first, or an empty string (one query)."""
    if not viewer.may_anywhere("answer"):
        return ""
    return "".join(open_for(viewer).first(run=run_id) or ())


@compiled_rows
def open_for(viewer: Viewer) -> QuerySet[Any, Any]:
    """Return the query of the open request of a ``run`` that this person should answer first."""
    rows = HumanRequest.objects.filter(tab_filter(viewer, "mine"), run_id=Placeholder("run"))
    return rows.order_by(F("due").asc(nulls_last=True), "created", "id").values_list("id")[:1]


def _visible(viewer: Viewer) -> Q:
    """Return the filter of requests whose page this person may open."""
    return viewer.scope("see") | viewer.started()


def _order(tab: str, sort: str) -> KeysetOrder:
    return NEWEST if tab == "answered" else ORDERS.get(sort, ORDERS["age"])


def _sort_keys(viewer: Viewer, tab: str, text: str, order: KeysetOrder) -> QuerySet[Any, dict[str, Any]]:
    rows = HumanRequest.objects.filter(in_tab(viewer, tab), filter_requests(viewer, text))
    return _sorted_keys(rows, tab, order)


first_keys = compiled_rows(lambda viewer, tab, order, most: _sort_keys(viewer, tab, "", order)[:most])
"""Returns the query of where the first requests of a tab stand."""


def _place_of(viewer: Viewer, request_id: str, tab: str, order: KeysetOrder) -> dict[str, Any] | None:
    """Return the values of the order that a request has, whether the list has it or not; None if it is not visible."""
    return _sorted_keys(HumanRequest.objects.filter(_visible(viewer), pk=request_id), tab, order).first()


def _sorted_keys(rows: QuerySet[HumanRequest], tab: str, order: KeysetOrder) -> QuerySet[Any, dict[str, Any]]:
    """Return rows in order, with only the columns of the order."""
    if tab == "answered":
        place: Any = Coalesce("answered", "settles", "created")
    else:
        place = Coalesce("due", Value(NEVER, output_field=MomentField()))
    names = [column.lstrip("-") for column in order.columns]
    named = rows.annotate(place=place) if "place" in names else rows
    ordered: QuerySet[Any, dict[str, Any]] = named.order_by(*order.columns).values(*names)
    return ordered


RUN_NAMES = ("title", "own_title", "summary")
"""Columns of a run that its title is made of."""
FIELDS = (
    "id",
    "run_id",
    *(f"run__{name}" for name in RUN_NAMES),
    "workflow",
    "step",
    "kind",
    "subject",
    "risk",
    "by",
    "due",
    "created",
    "answered",
    "settles",
    "asked",
    "stuck",
    f"assignee__{USERNAME}",
    f"answer__by__{USERNAME}",
    "answer__verdict",
    "answer__rule",
    "closed_as",
)


def _rows_of(viewer: Viewer, ids: list[str]) -> tuple[RequestRow, ...]:
    """Return rows by id, in that order, with who has seen them."""
    hidden = tuple(hidden_cards())
    found = rows_shown(viewer, hidden).all(ids=ids, since=timezone.now() - PRESENCE_TIMEOUT)
    names = *FIELDS, "seen", "snoozed", *hidden
    by_id = {values[0]: _request_row(viewer, dict(zip(names, values, strict=True))) for values in found}
    return tuple(by_id[one] for one in ids if one in by_id)


@compiled_rows
def rows_shown(viewer: Viewer, hidden: tuple[str, ...]) -> QuerySet[Any, Any]:
    """Return the query of the rows with these ``ids`` and who saw them lately, with what ``hidden_cards`` adds."""
    since = Placeholder("since", Presence._meta.get_field("seen"))
    lately = Presence.objects.filter(Q(user_id=viewer.user.pk) | Q(seen__gt=since), request_id=OuterRef("pk"))
    seen = JsonRows(lately.order_by().annotate(name=F(f"user__{USERNAME}")).values_list("name"), "name")
    later = request.snoozes_of(viewer).filter(request_id=OuterRef("pk"))
    rows = HumanRequest.objects.filter(_visible(viewer), Among("pk", Placeholder("ids")))
    rows = rows.annotate(seen=seen, snoozed=Subquery(later.values("until")), **hidden_cards())
    return rows.values_list(*FIELDS, "seen", "snoozed", *hidden)


def card_values(viewer: Viewer, ids: Sequence[str]) -> dict[str, dict[str, FieldValue]]:
    """Return request id -> name -> value: what the cards of requests show this person beside their texts (one query).

    Left out are secrets, values that a card has several of, and cards that are unreadable, large or not theirs to read.
    """
    rows = HumanRequest.objects.annotate(size=StoredSize("card")).filter(_visible(viewer), pk__in=ids)
    rows = rows.filter(size__lt=LARGEST_LISTED).select_related("run__created_by").only(*CARD_COLUMNS)
    shown = (
        row
        for row in rows
        if viewer.reads_card(row.workflow, row.by, origin_of(row.run), assigned=row.assignee_id == viewer.user.pk)
    )
    return {row.pk: _values_of(row) for row in shown if is_readable(row)}


CARD_COLUMNS = (
    *("card", "answer_schema", "policy", "risk", "workflow", "by", "assignee"),
    *("run__requesters", f"run__created_by__{USERNAME}"),
)


def _values_of(row: HumanRequest) -> dict[str, FieldValue]:
    pieces = row.card.get("evidence")
    parts = {name: row.card.get(name) for name in ("proposal", "context")}
    parts["evidence"] = [
        piece.get("value")
        for piece in (pieces if isinstance(pieces, list) else [])
        if isinstance(piece, dict) and piece.get("kind") in ("json", "table")
    ]
    secrets, found = secrets_in(row), dict[str, Json]()
    for path, value in search_attributes.leaves(parts, {}):
        name = ".".join(path)
        found[name] = None if name in found or value == HIDDEN or not secrets.isdisjoint(path) else value
    return {
        name: FieldValue(field=card_field(name, [value]), value=value)
        for name, value in found.items()
        if value is not None and CARD_NAME.fullmatch(name)
    }


def with_names(viewer: Viewer, values: dict[str, Any]) -> dict[str, Any]:
    """Return columns of a request with its subject and the title of its run, as this person may read them."""
    row = dict(values)
    if "hidden_card" in row:
        row["subject"] = subject_in(row.pop("hidden_card"), str(row["id"]), row["step"])
    row["subject"] = visible(str(row["subject"] or row["step"]))
    row["run"] = row.pop("run_id")
    run = {name: row.pop(f"run__{name}") for name in RUN_NAMES} | {"id": row["run"], "workflow": row["workflow"]}
    return row | {"run_title": title_of(run_in(run), viewer.may("inspect", row["workflow"]))}


def _request_row(viewer: Viewer, values: dict[str, Any]) -> RequestRow:
    row = with_names(viewer, values)
    by, rule = row.pop(f"answer__by__{USERNAME}"), row.pop("answer__rule")
    row["answered_by"] = by or rule_name(rule)
    row["verdict"] = row.pop("answer__verdict") or ""
    row["assignee"] = row.pop(f"assignee__{USERNAME}") or ""
    seen = {name for (name,) in json.loads(row.pop("seen") or "[]")}
    row["unread"], row["here"] = viewer.name not in seen, tuple(sorted(seen - {viewer.name}))
    return RequestRow.trusted(**row | {"by": tuple(row["by"]), "risk": RISK_NAMES.get(row["risk"], "")})


TABS: tuple[str, ...] = get_args(Tab)
MAX_WAITING = 1000
"""Requests that wait for a person are counted up to this number for the navigation."""
MAX_OPEN = 1_000_000
MOST_ANSWERED = 1_000
"""A person's latest answers, which the tab of answered requests holds."""
EVERYTHING = Q(pk__isnull=False)
ASKED = OPEN & FOR_PEOPLE
"""Open, and addressed to people: requests that wait for a signal are in no one's inbox."""
FLAGS: dict[str, Callable[[Viewer], Q]] = {
    "may": request.may_answer,
    "free": request.not_assigned_elsewhere,
    "unspoken": request.not_voted_by,
    "grouped": request.through_groups,
    "untaken": request.unassigned,
    "back": request.awaiting_reply_of,
    "later": request.snoozed_by,
    "awake": lambda viewer: ~request.snoozed_by(viewer),
}
TAB_FLAGS: dict[str, tuple[str, ...]] = {
    "mine": ("free", "may", "awake", "unspoken"),
    "groups": ("grouped", "may"),
    "unassigned": ("untaken", "may"),
    "asked": ("back",),
    "snoozed": ("later",),
    "all": (),
}
"""The conditions of each tab, for both lists and counts. The cheapest is first."""


def tab_filter(viewer: Viewer, tab: str) -> Q:
    """Return a tab's filter."""
    if tab == "answered":
        return viewer.scope("see") & FOR_PEOPLE & Q(pk__in=_latest_replies(viewer, of=F("request_id")))
    found = ASKED if tab == "asked" else ASKED & viewer.scope("see")
    for flag in TAB_FLAGS[tab]:
        found &= FLAGS[flag](viewer)
    return found


in_tab = compiled_filter(HumanRequest, tab_filter)
"""``tab_filter`` as SQL, for queries of requests themselves."""


def count_open(viewer: Viewer) -> int:
    """Return how many open requests wait for this person, at most ``MAX_WAITING`` (one query)."""
    return _open_for(viewer).count() if viewer.may_anywhere("answer") else 0


@compiled
def _open_for(viewer: Viewer) -> QuerySet[Any, Any]:
    return HumanRequest.objects.filter(tab_filter(viewer, "mine")).order_by().values("pk")[:MAX_WAITING]


def count_tabs(viewer: Viewer, text: str = "") -> dict[str, int]:
    """Return the count of every tab under a filter (one query). ``Invalid`` for an invalid filter."""
    return count_all(viewer, text)[0]


def count_all(viewer: Viewer, text: str = "") -> tuple[dict[str, int], int]:
    """Return the count of every tab under a filter, and how many wait for this person without it (one query).

    One pass over the open requests: each request's flags are computed once, whatever is counted.
    """
    wanted = filter_requests(viewer, text)
    if wanted:
        flags, answered = statement_of(_flags(viewer, wanted)), statement_of(_answered(viewer, wanted))
    else:
        flags, answered = _all_flags(viewer), _all_answered(viewer)
    sums = {tab: ("fits", *(() if tab == "asked" else ("seen",)), *names) for tab, names in TAB_FLAGS.items()}
    sums["mine"], sums["waiting"] = ("fits", "seen", "own"), ("seen", "own")
    columns = "".join(f"SUM({' * '.join(names)}), " for names in sums.values())
    columns += f"(SELECT COUNT(*) FROM ({answered.sql}) AS answered WHERE counts)"  # noqa: S608
    own = _with_own(flags, _not_voted(viewer))
    found = replace(own, params=(*answered.params, *own.params)).select(columns) or (0,) * (len(sums) + 1)
    counts = {name: int(number or 0) for name, number in zip((*sums, "answered"), found, strict=True)}
    return {tab: counts[tab] for tab in TABS}, counts["waiting"]


def _with_own(flags: Statement, unspoken: Statement) -> Statement:
    """Return the flags with ``own``: whether the request is of the tab ``mine``, by all conditions of that tab.

    The last is asked of those only that fulfil the others. It takes a look at the replies, which for all open requests
    would be most of the time.
    """
    if not flags.sql:
        return flags
    others = " * ".join(name for name in TAB_FLAGS["mine"] if name != "unspoken")
    own = f"CASE WHEN {others} = 1 AND {unspoken.sql} THEN 1 ELSE 0 END AS own"
    rows = f'SELECT *, {own} FROM ({flags.sql}) AS "{HumanRequest._meta.db_table}" LIMIT {MAX_OPEN}'  # noqa: S608
    return Statement(sql=rows, params=(*unspoken.params, *flags.params))


def _flags(viewer: Viewer, wanted: Q = EVERYTHING) -> QuerySet[Any, Any]:
    """Return the id of each open request that counts for some tab, and its flags but for ``unspoken``."""
    flags = {"seen": viewer.scope("see"), "fits": wanted}
    flags |= {name: say(viewer) for name, say in FLAGS.items() if name != "unspoken"}
    cases = {name: Case(When(flag, then=1), default=0) for name, flag in flags.items()}
    visible = viewer.scope("see") | request.awaiting_reply_of(viewer)
    rows = HumanRequest.objects.filter(ASKED, visible).annotate(**cases).order_by().values_list("id", *cases)
    # A query within a query: its limit keeps it one.
    return rows[:MAX_OPEN]


def _answered(viewer: Viewer, wanted: Q = EVERYTHING) -> QuerySet[Any, Any]:
    """Return, for each request of the tab ``answered`` before it is filtered, whether it is in the tab."""
    own = HumanRequest.objects.filter(viewer.scope("see"), FOR_PEOPLE, wanted, pk=OuterRef("request_id"))
    return _latest_replies(viewer, counts=RowExists(own))


def _latest_replies(viewer: Viewer, **column: Any) -> QuerySet[Any, Any]:
    mine = Reply.objects.filter(by_id=viewer.user.pk, undone__isnull=True)
    return mine.order_by("-at").values(**column)[:MOST_ANSWERED]


_all_flags, _all_answered = compiled(_flags), compiled(_answered)
_not_voted = compiled_condition(HumanRequest)(request.not_voted_by)


MAX_SUGGESTING = 2000
"""Open requests that suggestions are taken from, newest first."""
COLUMNS = ("workflow", "step", "kind", f"assignee__{USERNAME}", "by")


UNANSWERABLE = Q(Literally("stuck", "> ''"))
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
    "kind",
    "kind:approval",
    "approval, choice, question, form …",
    suggest=listed("kind"),
    condition=lambda context, term, value: Q(kind=value.lower()),
)
BY_RULE = Q(answered__isnull=False, answer__rule__isnull=False)
BY_DEADLINE = Q(answered__isnull=False, answer__by__isnull=True, answer__rule__isnull=True)
BY_PERSON = Q(answered__isnull=False, answer__by__isnull=False)
VERDICTS = {"approved": "approve", "edited": "edit", "rejected": "reject"}
OUTCOMES: dict[str, Q] = {
    "deadline": BY_DEADLINE,
    "rule": BY_RULE,
    **{name: BY_PERSON & Q(answer__verdict=verdict) for name, verdict in VERDICTS.items()},
    "other": BY_PERSON & ~Q(answer__verdict__in=VERDICTS.values()),
}
"""How a request was decided; each is decided in exactly one of these ways."""
OUTCOME: Qualifier[ToQ, ListedValues] = Qualifier(
    "outcome",
    "outcome:rejected",
    "approved, edited, rejected, other (another answer), rule, or deadline",
    only=(*VERDICTS, "other", "rule", "deadline"),
    condition=lambda context, term, value: OUTCOMES[value.lower()],
)
QUALIFIERS: tuple[Qualifier[ToQ, ListedValues], ...] = (
    WORKFLOW,
    Qualifier("run", "run:019a…", "of the run with this id", condition=equals("run_id")),
    Qualifier("step", "step:review", "this step", suggest=listed("step"), condition=equals("step")),
    KIND,
    Qualifier(
        "risk",
        "risk:high",
        "high, medium, low or none",
        only=("high", "medium", "low", "none"),
        condition=lambda context, term, value: Q(risk=RISKS.get(value.lower(), 0)),
    ),
    Qualifier(
        "due",
        "due:<4h",
        "<4h, >2d, today, overdue, none, any, <2030-01-31",
        accepts=_is_due,
        signs=INEQUALITIES,
        values=("<4h", "<1d", "overdue", "today", "none"),
        condition=_due,
    ),
    Qualifier(
        "age",
        "age:>2d",
        ">2d: older, <1h: newer",
        accepts=lambda value, sign: duration_of(value) is not None,
        signs=INEQUALITIES,
        values=(">1d", ">7d", "<1h"),
        condition=_age,
    ),
    Qualifier(
        "assignee",
        "assignee:me",
        "me, none, or a user name",
        values=("me", "none"),
        suggest=listed(f"assignee__{USERNAME}"),
        condition=_assignee,
    ),
    Qualifier(
        "by",
        "by:finance",
        "addressed to this person or group, or to me",
        values=("me",),
        suggest=listed("by"),
        condition=_by,
    ),
    OUTCOME,
    Qualifier(
        "is",
        "is:overdue",
        "overdue, unread, asked, assigned, unanswerable",
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
