"""The tabs of the inbox: what each holds, and how many.

A tab's count and its list come from the same filter. Filters and counts are compiled once per person's rights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import Case, Q, QuerySet, When

from checkpoints.database.compiled import Statement, compiled, compiled_condition, compiled_filter, statement_of
from checkpoints.models import FOR_PEOPLE, OPEN, HumanRequest, Reply
from wfdash.access.viewer import Viewer
from wfdash.queries.requests import audience
from wfdash.queries.requests.qualifiers import filter_requests

TABS = ("mine", "groups", "unassigned", "asked", "all", "answered")
MAX_WAITING = 1000
"""Requests that wait for a person are counted up to this number for the navigation."""
MAX_OPEN = 1_000_000
MOST_ANSWERED = 1_000
"""A person's latest answers, which the tab of answered requests holds."""
EVERYTHING = Q(pk__isnull=False)
ASKED = OPEN & FOR_PEOPLE
"""Open, and addressed to people: requests that wait for a signal are in no one's inbox."""
FLAGS: dict[str, Callable[[Viewer], Q]] = {
    "may": audience.may_answer,
    "free": audience.not_assigned_elsewhere,
    "unspoken": audience.not_voted_by,
    "grouped": audience.through_groups,
    "untaken": audience.unassigned,
    "back": audience.awaiting_reply_of,
}
TAB_FLAGS: dict[str, tuple[str, ...]] = {
    "mine": ("free", "may", "unspoken"),
    "groups": ("grouped", "may"),
    "unassigned": ("untaken", "may"),
    "asked": ("back",),
    "all": (),
}
"""The conditions of each tab, for both lists and counts. The cheapest is first."""


def tab_filter(viewer: Viewer, tab: str) -> Q:
    """Return a tab's filter."""
    if tab == "answered":
        replies = Reply.objects.filter(by_id=viewer.user.pk, undone__isnull=True).order_by("-at")
        return viewer.scope("see") & FOR_PEOPLE & Q(pk__in=replies.values("request_id")[:MOST_ANSWERED])
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
    """Return the count of every tab under a filter (two queries). ``Invalid`` for an invalid filter."""
    return count_all(viewer, text)[0]


def count_all(viewer: Viewer, text: str = "") -> tuple[dict[str, int], int]:
    """Return the count of every tab under a filter, and how many wait for this person without it (two queries).

    One pass over the open requests: each request's flags are computed once, whatever is counted.
    """
    wanted = filter_requests(viewer, text)
    if wanted:
        flags, answered = statement_of(_flags(viewer, wanted)), statement_of(_answered(viewer, wanted))
    else:
        flags, answered = _all_flags(viewer), _all_answered(viewer)
    sums = {tab: ("fits", *(() if tab == "asked" else ("seen",)), *names) for tab, names in TAB_FLAGS.items()}
    sums["mine"], sums["waiting"] = ("fits", "seen", "own"), ("seen", "own")
    columns = ", ".join(f"SUM({' * '.join(names)})" for names in sums.values())
    found = _with_own(flags, _not_voted(viewer)).select(columns) or ()
    counts = dict.fromkeys(sums, 0) | {name: int(number or 0) for name, number in zip(sums, found, strict=False)}
    return {tab: answered.count() if tab == "answered" else counts[tab] for tab in TABS}, counts["waiting"]


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
    visible = viewer.scope("see") | audience.awaiting_reply_of(viewer)
    rows = HumanRequest.objects.filter(ASKED, visible).annotate(**cases).order_by().values_list("id", *cases)
    # A query within a query: its limit keeps it one.
    return rows[:MAX_OPEN]


def _answered(viewer: Viewer, wanted: Q = EVERYTHING) -> QuerySet[Any, Any]:
    return HumanRequest.objects.filter(tab_filter(viewer, "answered"), wanted).order_by().values("pk")


_all_flags, _all_answered = compiled(_flags), compiled(_answered)


@compiled_condition(HumanRequest)
def _not_voted(viewer: Viewer) -> Q:
    return FLAGS["unspoken"](viewer)
