"""What restoring or forking a checkpoint means for requests: which open again or are closed, which answers stay."""

from __future__ import annotations

from collections.abc import Collection

from checkpoints import rules
from checkpoints.events import EventKind
from checkpoints.models import Answer, Event, HumanRequest
from checkpoints.records import Request
from wfdash.contract import Edits
from wfdash.domain.invisible import visible
from wfdash.queries.history.lineage import EventRange, range_filter
from wfdash.queries.unreadable import data_of
from wfdash.records.checkpoints import PendingRequest
from wfdash.records.requests import GivenAnswer
from wfdash.records.time_machine import ClosedRequestRecord, EarlierAnswer, ReopenedRequestRecord
from wfdash.timemachine import restore_point


class ReopenedRequest(ReopenedRequestRecord):
    """A request that will be opened again. ``suggestion``: its last answer, if any; ``given``: the edits answer it."""

    @property
    def subject(self) -> str:
        """The card's headline."""
        return visible(rules.card_subject(self.request.card, self.request.step))


def reopened(run_id: str, requests: tuple[Request, ...], edits: Edits | None) -> tuple[ReopenedRequest, ...]:
    """Return the requests of a checkpoint, each with the last answer it had in the run (one query)."""
    earlier = restore_point.earlier_answers(run_id, [request.key for request in requests]) if requests else {}
    return tuple(
        ReopenedRequest.trusted(
            request=PendingRequest.of(request),
            suggestion=_view(earlier[request.key]) if request.key in earlier else None,
            given=bool(edits and request.key in edits.answers),
        )
        for request in requests
    )


def _view(answer: Answer) -> GivenAnswer:
    by = answer.by.get_username() if answer.by else "a deadline"
    return GivenAnswer.trusted(by=by, at=answer.at, verdict=answer.verdict, value=restore_point.value_shown(answer))


def closed(run_id: str, kept: Collection[str]) -> tuple[ClosedRequestRecord, ...]:
    """Return the run's open requests but for those with these keys (one query)."""
    rows = HumanRequest.objects.filter(run_id=run_id, closed__isnull=True).order_by("created", "id")
    gone = (row for row in rows if row.key not in kept)
    return tuple(ClosedRequestRecord.trusted(subject=str(row), answered=row.answered is not None) for row in gone)


def answers_before(spans: list[EventRange], pending: Collection[str]) -> list[EarlierAnswer]:
    """Return the answers that led to the checkpoint and were consumed by then, newest first."""
    rows = Event.objects.filter(range_filter(spans), kind=EventKind.REQUEST_ANSWERED)
    last = {str(data_of(row).get("key")): row for row in rows.order_by("at", "seq")}
    return [
        EarlierAnswer.trusted(
            key=key,
            subject=str(data_of(row).get("subject") or row.step or ""),
            by=str(data_of(row).get("by") or ""),
            verdict=str(data_of(row).get("verdict") or ""),
            at=row.at,
        )
        for key, row in reversed(last.items())
        if key not in pending
    ]
