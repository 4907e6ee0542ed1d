"""Decisions every storage takes alike, kept pure so that dicts and databases cannot drift apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from checkpoints.ids import RequestId, RequestKey
from checkpoints.records import EventDraft, Phase, Standing

TIMED = frozenset({Phase.WAITING, Phase.SLEEPING, Phase.RETRYING})
"""Phases that an answer or a wake time turns into ready."""


def is_due(phase: Phase, wake_at: datetime | None, claim_expires: datetime | None, now: datetime) -> bool:
    """Say whether a run should be driven now: ready or woken, and nobody live holds it."""
    if claim_expires is not None and claim_expires > now:
        return False
    return phase is Phase.READY or (phase in TIMED and wake_at is not None and wake_at <= now)


def settled_phase(standing: Standing, *, answer_arrived: bool) -> Phase:
    """Return the phase a run gets when its engine lets go: an answer that came meanwhile makes it ready."""
    return Phase.READY if answer_arrived and standing.phase in TIMED else standing.phase


def link_requests(events: Iterable[EventDraft], rows: Mapping[RequestKey, RequestId]) -> list[EventDraft]:
    """Add the row id (``request``) to each ``request.opened`` event, so that pages can link to the question."""
    if not rows:
        return list(events)
    return [linked(event, rows) for event in events]


def linked(event: EventDraft, rows: Mapping[RequestKey, RequestId]) -> EventDraft:
    """Return the event with its request's row id, if it tells of one."""
    row = rows.get(event.data.get("key", "")) if event.kind == "request.opened" else None
    return event if row is None else event.model_copy(update={"data": {**event.data, "request": row}})
