"""The list of decisions: answered requests of workflows that this person may see, the latest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet

from checkpoints.models import HumanRequest
from checkpoints.models.fields import current_encryptor
from wfdash.access.viewer import Viewer
from wfdash.domain.invisible import visible
from wfdash.queries.requests.decision_filter import ANSWERED, filter_decisions, outcome, reversed_later
from wfdash.queries.run_names import title_in
from wfdash.queries.search.conditions import SplitCondition, edge_of
from wfdash.queries.search.keyset import KeysetOrder
from wfdash.queries.unreadable import subject_in
from wfdash.records.base import ScannedPage
from wfdash.records.inbox import DecisionRecord

LATEST = KeysetOrder(columns=("-place", "-id"))
REACH = 20_000
"""Decisions looked through for one page, and to count them: the latest of the time that a filter names."""
FAR_REACH = 200_000
"""Decisions looked through when a person asks to look further."""
FIELDS = ("id", "run_id", "workflow", "step", "kind", "created", "place", "verdict", "subject", "outcome", "reversed")
NAMES = ("title", "own_title", "summary")


def read_decisions(
    viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 50, far: bool = False
) -> ScannedPage[DecisionRecord]:
    """Return one page of decisions, the latest first (at most two queries). ``Invalid`` for an invalid filter.

    No filter looks through more than ``REACH`` of them, ``FAR_REACH`` with ``far``: a page that found too few by then
    says how far it came, and may be empty.
    """
    wanted, place = filter_decisions(viewer, text), LATEST.place(cursor)
    listed = HumanRequest.objects.annotate(place=F("answered"))
    listed = listed.filter(LATEST.after(place), answered__lte=place["place"]) if place else listed
    edge = _edge(listed.filter(wanted.along), FAR_REACH if far else REACH) if wanted.rest else None
    first = listed.filter(_found(viewer, wanted), _until(edge)).order_by("-answered", "-id").values("pk")[: limit + 1]
    # Which ones first, then their answers and runs: PostgreSQL takes words for rare and would read those of all found.
    named = HumanRequest.objects.filter(pk__in=first).annotate(
        place=F("answered"), outcome=outcome(), reversed=reversed_later(), verdict=F("answer__verdict")
    )
    card = ("card",) if current_encryptor().active else ()
    fields = (*FIELDS, *(f"run__{name}" for name in NAMES), *card)
    found = list(named.order_by("-answered", "-id").values(*fields))
    more = LATEST.cursor(found[limit - 1]) if len(found) > limit else ""
    items = tuple(_row(viewer, values) for values in found[:limit])
    if edge is not None and not more:
        # Before every id.
        return ScannedPage.trusted(items=items, next=LATEST.cursor({"place": edge, "id": ""}), reached=edge)
    return ScannedPage.trusted(items=items, next=more)


def count_decisions(viewer: Viewer, text: str = "") -> tuple[int, bool]:
    """Return how many decisions a filter finds among ``REACH``, and whether there may be more (two queries)."""
    wanted = filter_decisions(viewer, text)
    edge = _edge(HumanRequest.objects.filter(wanted.along), REACH) if wanted.rest else None
    rows = HumanRequest.objects.filter(_found(viewer, wanted), _until(edge)).order_by()
    number = rows[: REACH + 1].count()
    return min(number, REACH), number > REACH or edge is not None


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
    row = dict(values)
    if "card" in row:
        row["subject"] = subject_in(row.pop("card"), str(row["id"]), row["step"])
    row["run"], row["answered"] = row.pop("run_id"), row.pop("place")
    run = {name: row.pop(f"run__{name}") for name in NAMES} | {"id": row["run"], "workflow": row["workflow"]}
    row["run_title"] = title_in(run, viewer.may("inspect", row["workflow"]))
    return DecisionRecord.trusted(
        **row | {"subject": visible(str(row["subject"] or row["step"])), "verdict": row["verdict"] or ""}
    )
