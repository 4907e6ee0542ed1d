"""One request with everything a person needs to decide, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from checkpoints.models import HumanRequest
from checkpoints.records import ENDED, Json, Phase
from wfdash.access import Viewer
from wfdash.errors import NotFound


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """The reply that won."""

    by: str
    at: datetime
    verdict: str
    value: Json


@dataclass(frozen=True, kw_only=True)
class RequestView:
    """A request as its page shows it: the card, the schema, and its fate.

    ``state``: open | answered | taken | withdrawn | superseded | cancelled. ``refusal`` says in words why this
    person may not answer; empty when they may.
    """

    id: str
    key: str
    run: str
    run_title: str
    run_phase: str
    workflow: str
    version: str
    step: str
    kind: str
    card: dict[str, Json]
    answer_schema: dict[str, Json]
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    due: datetime | None
    created: datetime
    requester: str
    state: str
    answer: AnswerView | None = None
    suggestion: dict[str, Json] | None = None
    replaced_by: str | None = None
    refusal: str = ""
    subject: str = field(default="")

    @property
    def open(self) -> bool:
        """Say whether it still waits for an answer."""
        return self.state == "open"


def request(viewer: Viewer, request_id: str) -> RequestView:
    """Return one request (two queries), or raise ``NotFound``.

    Those who may not inspect values see card and answer of what is addressed to them, of others the subject.
    """
    rows = HumanRequest.objects.filter(viewer.scope("see"), pk=request_id)
    row = rows.select_related("run", "run__created_by", "answer", "answer__by").first()
    if row is None:
        raise NotFound("There is no such request, or it is not yours to see")
    requester = row.run.created_by.get_username() if row.run.created_by else ""
    shown = viewer.may("inspect", row.workflow) or viewer.addressed(row.by, (), requester)
    later = HumanRequest.objects.filter(replaces=row.id).order_by("-created").values_list("id", flat=True)
    return RequestView(
        id=row.id,
        key=row.key,
        run=row.run_id,
        run_title=row.run.title,
        run_phase=row.run.phase,
        workflow=row.workflow,
        version=row.run.version,
        step=row.step,
        kind=row.kind,
        card=row.card if shown else {"subject": row.card.get("subject", "")},
        answer_schema=row.answer_schema if shown else {"type": "null"},
        by=tuple(row.by),
        not_by=tuple(row.not_by),
        due=row.due,
        created=row.created,
        requester=requester,
        state=_state(row),
        answer=_answer(row, shown),
        suggestion=row.suggestion if shown else None,
        replaced_by=later.first() if row.closed_as == "superseded" else None,
        refusal=_refusal(viewer, row, requester),
        subject=str(row.card.get("subject") or row.step),
    )


def _state(row: HumanRequest) -> str:
    if row.closed is None and row.answered is None:
        ended = row.run.phase in ENDED and row.run.phase != Phase.FAILED.value
        return "cancelled" if ended else "open"
    return row.closed_as if row.closed_as and row.closed_as != "taken" else "answered"


def _answer(row: HumanRequest, shown: bool) -> AnswerView | None:
    found: Any = getattr(row, "answer", None)
    if found is None:
        return None
    by = found.by.get_username() if found.by else "a deadline"
    return AnswerView(by=by, at=found.at, verdict=found.verdict, value=found.value if shown else None)


def _refusal(viewer: Viewer, row: HumanRequest, requester: str) -> str:
    if not viewer.may("answer", row.workflow):
        return "Your role lets you read this request, not answer it."
    if viewer.addressed(row.by, row.not_by, requester):
        return ""
    if viewer.name in row.not_by or (requester == viewer.name and "requester" in row.not_by):
        return "This needs a second person: you may not answer it yourself."
    return f"This request is for {', '.join(row.by)}."
