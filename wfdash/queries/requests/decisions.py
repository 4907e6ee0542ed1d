"""The list of decisions: answered requests of workflows that this person may see, the latest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q

from checkpoints.models import HumanRequest
from checkpoints.models.fields import current_encryptor
from wfdash.access.viewer import Viewer
from wfdash.domain.invisible import visible
from wfdash.queries.requests.decision_filter import ANSWERED, filter_decisions, outcome, reversed_later
from wfdash.queries.run_names import title_in
from wfdash.queries.search.keyset import KeysetOrder, Page
from wfdash.queries.unreadable import subject_in

LATEST = KeysetOrder(columns=("-place", "-id"))
MOST_COUNTED = 20_000
"""Decisions are counted up to this number."""
FIELDS = ("id", "run_id", "workflow", "step", "kind", "created", "place", "verdict", "subject", "outcome", "reversed")
NAMES = ("title", "own_title", "summary")


@dataclass(frozen=True, kw_only=True)
class DecisionRow:
    """An answered request. ``outcome``: see ``OUTCOMES``; ``verdict``: the action that was chosen."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    subject: str
    created: datetime
    answered: datetime
    outcome: str
    verdict: str
    reversed: bool

    @property
    def took(self) -> timedelta:
        """Return how long it was open."""
        return max(self.answered - self.created, timedelta())


def decisions(viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 50) -> Page[DecisionRow]:
    """Return one page of decisions, the latest first (one query). ``Invalid`` for an invalid filter."""
    rows, place = HumanRequest.objects.filter(_found(viewer, text)).annotate(place=F("answered")), LATEST.place(cursor)
    rows = rows.filter(answered__lte=place["place"]).filter(LATEST.after(place)) if place else rows
    named = rows.annotate(outcome=outcome(), reversed=reversed_later(), verdict=F("answer__verdict"))
    card = ("card",) if current_encryptor().active else ()
    fields = (*FIELDS, *(f"run__{name}" for name in NAMES), *card)
    found = list(named.order_by("-answered", "-id").values(*fields)[: limit + 1])
    more = LATEST.cursor(found[limit - 1]) if len(found) > limit else ""
    return Page(items=tuple(_row(viewer, values) for values in found[:limit]), next=more)


def count_decisions(viewer: Viewer, text: str = "") -> int:
    """Return how many decisions a filter finds, at most ``MOST_COUNTED`` (one query)."""
    return HumanRequest.objects.filter(_found(viewer, text)).order_by()[:MOST_COUNTED].count()


def _found(viewer: Viewer, text: str) -> Q:
    return ANSWERED & viewer.scope("see") & filter_decisions(viewer, text)


def _row(viewer: Viewer, values: dict[str, Any]) -> DecisionRow:
    row = dict(values)
    if "card" in row:
        row["subject"] = subject_in(row.pop("card"), str(row["id"]), row["step"])
    row["run"], row["answered"] = row.pop("run_id"), row.pop("place")
    run = {name: row.pop(f"run__{name}") for name in NAMES} | {"id": row["run"], "workflow": row["workflow"]}
    row["run_title"] = title_in(run, viewer.may("inspect", row["workflow"]))
    return DecisionRow(
        **row | {"subject": visible(str(row["subject"] or row["step"])), "verdict": row["verdict"] or ""}
    )
