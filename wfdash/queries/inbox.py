"""Requests as lists: what waits for this person, what waits at all, what they answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import Exact
from django.utils.timezone import make_aware

from checkpoints.fields import current_sealer, opened
from checkpoints.models import HumanRequest
from checkpoints.rules import RISKS
from wfdash.access import Viewer
from wfdash.queries.names import ListLength, NamesAny
from wfdash.queries.paging import Filter, Page, decode_cursor, encode_cursor, parse_filter

TABS = ("mine", "all", "answered")
WORDS = {number: word for word, number in RISKS.items()}
KEYS = frozenset({"workflow", "risk", "step", "by"})
NEVER = make_aware(datetime(9999, 1, 1))  # noqa: DTZ001
OPEN = Q(closed__isnull=True, answered__isnull=True)


@dataclass(frozen=True, kw_only=True)
class RequestRow:
    """A request in a list: metadata and the card's headline, never values."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    subject: str
    risk: str
    by: tuple[str, ...]
    due: datetime | None
    created: datetime
    answered: datetime | None = None
    answered_by: str = ""
    verdict: str = ""
    closed_as: str = ""
    place: datetime


def addressed_to(viewer: Viewer) -> Q:
    """Return the filter of requests this person may answer: the role, ``by`` and ``not_by``."""
    names = {viewer.name, *viewer.groups}
    started = Q(run__created_by_id=viewer.user.pk)
    asked = Q(Exact(ListLength("by"), 0)) | Q(NamesAny("by", names)) | (Q(NamesAny("by", ["requester"])) & started)
    refused = Q(NamesAny("not_by", [viewer.name]))
    own = Q(NamesAny("not_by", ["requester"])) & started
    own &= Q(run__created_by__isnull=False)
    return viewer.scope("answer") & asked & ~refused & ~own


def tab_query(viewer: Viewer, tab: str) -> QuerySet[HumanRequest]:
    """Return a tab's requests; its list and its count both come from here."""
    requests = _seen(viewer)
    if tab == "answered":
        return requests.filter(answer__by_id=viewer.user.pk)
    if tab == "all":
        return requests.filter(OPEN)
    return requests.filter(OPEN & addressed_to(viewer))


def count_open(viewer: Viewer) -> int:
    """Return how many open requests this person may answer."""
    return tab_query(viewer, "mine").count() if viewer.may_anywhere("answer") else 0


def count_tabs(viewer: Viewer) -> dict[str, int]:
    """Return the count of every tab (three queries)."""
    return {tab: tab_query(viewer, tab).count() for tab in TABS}


def inbox(
    viewer: Viewer, tab: str = "mine", text: str = "", *, sort: str = "age", cursor: str = "", limit: int = 50
) -> Page[RequestRow]:
    """Return one page of a tab (one query): oldest first, ``sort="due"`` nearest deadline first.

    The answered tab is newest answer first.
    """
    rows = _match(tab_query(viewer, tab), parse_filter(text, KEYS))
    newest = tab == "answered"
    if newest:
        rows = rows.annotate(place=F("answer__at"))
    else:
        rows = rows.annotate(place=Coalesce("due", NEVER) if sort == "due" else F("created"))
    rows = rows.order_by(*(("-place", "-id") if newest else ("place", "id")))
    after = decode_cursor(cursor)
    if after:
        rows = rows.filter(_beyond(after, newest))
    found = [_row(values) for values in rows.values(*_fields())[: limit + 1]]
    more = encode_cursor(found[limit - 1].place, found[limit - 1].id) if len(found) > limit else ""
    return Page(items=tuple(found[:limit]), next=more)


def requests_of(viewer: Viewer, run_id: str, limit: int = 200) -> tuple[RequestRow, ...]:
    """Return a run's requests, newest first, answered and closed ones included (one query)."""
    rows = _seen(viewer).filter(run_id=run_id).annotate(place=F("created"))
    return tuple(_row(values) for values in rows.order_by("-created", "-id").values(*_fields())[:limit])


def _text(name: str) -> Cast:
    """Return a text of the card as a plain column, so that looking for it does not compare JSON."""
    return Cast(KT(f"card__{name}"), TextField())


def _seen(viewer: Viewer) -> QuerySet[HumanRequest]:
    return HumanRequest.objects.filter(viewer.scope("see")).annotate(subject=_text("subject"))


def _beyond(after: tuple[datetime, str], newest: bool) -> Q:
    at, row_id = after
    if newest:
        return Q(place__lt=at) | Q(place=at, id__lt=row_id)
    return Q(place__gt=at) | Q(place=at, id__gt=row_id)


def _match(rows: QuerySet[Any], wanted: Filter) -> QuerySet[Any]:
    for word in wanted.words:
        rows = rows.filter(Q(subject__icontains=word) | Q(workflow__icontains=word) | Q(run__title__icontains=word))
    for workflow in wanted.terms.get("workflow", ()):
        rows = rows.filter(workflow=workflow)
    for step in wanted.terms.get("step", ()):
        rows = rows.filter(step=step)
    for risk in wanted.terms.get("risk", ()):
        rows = rows.filter(risk=RISKS.get(risk.lower(), -1))
    return _match_names(rows, wanted.terms.get("by", ()))


def _match_names(rows: QuerySet[HumanRequest], names: Iterable[str]) -> QuerySet[HumanRequest]:
    for name in names:
        rows = rows.filter(Q(NamesAny("by", [name])) | Q(answer__by__username=name))
    return rows


FIELDS = (
    "id",
    "run_id",
    "run__title",
    "workflow",
    "step",
    "kind",
    "subject",
    "risk",
    "by",
    "due",
    "created",
    "answered",
    "answer__by__username",
    "answer__verdict",
    "closed_as",
    "place",
)


def _fields() -> tuple[str, ...]:
    """Return what a row is made of: where cards are encrypted, the database cannot read their headlines."""
    return (*FIELDS, "card") if current_sealer().active else FIELDS


def _row(values: dict[str, object]) -> RequestRow:
    row: dict[str, object] = dict(values)
    if "card" in row:
        card = opened(HumanRequest, "card", row.pop("card"), str(row["id"]))
        row["subject"] = card.get("subject")
    row["run"] = row.pop("run_id")
    row["run_title"] = row.pop("run__title")
    row["subject"] = str(row["subject"] or row["step"])
    row["risk"] = WORDS.get(int(str(row["risk"])), "")
    row["answered_by"] = row.pop("answer__by__username") or ""
    row["verdict"] = row.pop("answer__verdict") or ""
    row["by"] = tuple(row["by"])  # type: ignore[arg-type]
    return RequestRow(**row)  # type: ignore[arg-type]
