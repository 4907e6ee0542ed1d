"""Decisions every storage takes alike, kept pure so that dicts and databases cannot drift apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from checkpoints.canonical import dumps
from checkpoints.errors import Conflict, Damaged, Incompatible
from checkpoints.ids import CheckpointId, RequestId, RequestKey, RunId
from checkpoints.records import FORMAT, CheckpointInfo, EventDraft, Phase, Standing

TIMED = frozenset({Phase.WAITING, Phase.SLEEPING, Phase.RETRYING})
"""Phases that an answer or a wake time turns into ready."""

RISKS = {"low": 1, "medium": 2, "high": 3}


MAX_LABEL = 200
"""Characters of a checkpoint's label."""


def check_label(label: str | None) -> None:
    """Raise ``ValueError`` for a label that not every storage could keep, or that names nothing."""
    if label is not None and not 0 < len(label.strip()) <= len(label) <= MAX_LABEL:
        raise ValueError(f"label: give 1 to {MAX_LABEL} characters, or None to take it away; not {len(label)}")


def is_due(phase: Phase, wake_at: datetime | None, claim_expires: datetime | None, now: datetime) -> bool:
    """Say whether a run should be driven now: ready or woken, and nobody live holds it."""
    if claim_expires is not None and claim_expires > now:
        return False
    return phase is Phase.READY or (phase in TIMED and wake_at is not None and wake_at <= now)


def settled_phase(standing: Standing, *, answer_arrived: bool) -> Phase:
    """Return the phase a run gets when its engine lets go: an answer that came meanwhile makes it ready."""
    return Phase.READY if answer_arrived and standing.phase in TIMED else standing.phase


def risk_of(card: Mapping[str, object]) -> int:
    """Return a card's risk as a number that sorts: 0 not said, 1 low, 2 medium, 3 high."""
    return RISKS.get(str(card.get("risk")), 0)


def link_requests(events: Iterable[EventDraft], rows: Mapping[RequestKey, RequestId]) -> list[EventDraft]:
    """Add the row id (``request``) to each ``request.opened`` event, so that pages can link to the question."""
    if not rows:
        return list(events)
    return [linked(event, rows) for event in events]


def linked(event: EventDraft, rows: Mapping[RequestKey, RequestId]) -> EventDraft:
    """Return the event with its request's row id, if it tells of one."""
    row = rows.get(event.data.get("key", "")) if event.kind == "request.opened" else None
    return event if row is None else event.model_copy(update={"data": {**event.data, "request": row}})


def row_of(info: CheckpointInfo) -> bytes:
    """Return what of a checkpoint's metadata never changes and says where it belongs: its content is bound to that."""
    place = (info.id, info.run, info.n, info.parent)
    return dumps([*place, info.workflow, info.version, info.engine, info.step, info.reason.value])


def refuse_unreadable(info: CheckpointInfo) -> None:
    """Raise ``Incompatible`` for a format newer than this code, ``Damaged`` for what is known to be damaged."""
    facts = {"run": info.run, "checkpoint": info.id}
    if info.format > FORMAT:
        text = f"the checkpoint has format {info.format}, this code reads up to {FORMAT}: upgrade wfdash"
        raise Incompatible(text, **facts)
    if not info.clean:
        reason = info.flaw or "it was found damaged before"
        raise Damaged(f"the checkpoint is quarantined ({reason}): choose an older good one", known=True, **facts)


def needed(infos: Sequence[CheckpointInfo]) -> list[CheckpointId]:
    """Return what a run (its checkpoints newest first) would continue from: its head, and its newest clean one."""
    clean = next((info for info in infos if info.clean), None)
    return [info.id for info in (*infos[:1], clean) if info is not None]


def refuse_needed(run: RunId, needed: Iterable[CheckpointId], doomed: Collection[CheckpointId]) -> None:
    """Raise ``Conflict`` if one that the run needs is among those to be removed."""
    for checkpoint in needed:
        if checkpoint in doomed:
            text = f"checkpoint {checkpoint} is what the run would continue from: it cannot be pruned"
            raise Conflict(text, run=run, checkpoint=checkpoint)
