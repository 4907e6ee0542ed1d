"""A run as it was after one of its events. Reads what was stored then; nothing is executed, nothing changes."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from checkpoints import models
from checkpoints.events import EventKind
from checkpoints.records import Event
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import NotFound
from wfdash.queries.history.events import event_of, shown_info, workflow_of
from wfdash.queries.history.lineage import CheckpointNode, EventRange, nodes_of, ranges_of
from wfdash.queries.history.step_states import StepTransition, count_states, transitions_within
from wfdash.queries.unreadable import subject_of
from wfdash.records.checkpoints import CheckpointRecord, PastRequestRecord, ReplayFacts

MAX_SHOWN_ROWS = 50
STEPS = Q(kind__startswith="step.") | Q(kind__startswith="run.") | Q(kind__startswith="request.")
"""Events at which something starts, ends or changes hands; not a step's reports in between."""


class ReplayView(ReplayFacts):
    """A run as it was after an event. ``moves``: how its steps came to be where they were, oldest first."""

    event: Event
    moves: tuple[StepTransition, ...]
    events: tuple[Event, ...]
    """The last ones up to then, oldest first."""

    @property
    def words(self) -> str:
        """Return its number."""
        return str(self.seq)


def read_replay(viewer: Viewer, run_id: str, seq: int) -> ReplayView:
    """Return the run after an event (ten queries). ``NotFound`` for an event that does not exist."""
    inspect = viewer.may("inspect", workflow_of(viewer, run_id))
    rows = models.Event.objects.filter(run_id=run_id)
    last = rows.order_by("-seq").values_list("seq", flat=True).first() or 0
    if not 1 <= seq <= last:
        raise NotFound(f"Event {seq} not found: the run has {last}")
    found = list(reversed(rows.filter(seq__lte=seq).order_by("-seq")[:MAX_SHOWN_ROWS]))
    nodes = nodes_of(run_id)
    then = [node for node in nodes if node.seq <= seq]
    moved = transitions_within(ranges_at(run_id, then, seq))
    return ReplayView.trusted(
        event=event_of(found[-1], inspect=inspect),
        seq=seq,
        last=last,
        moves=tuple(moved),
        board=count_states(moved),
        requests=_past_requests(run_id, found[-1].at),
        events=tuple(event_of(row, inspect=inspect) for row in found),
        status=rows.filter(seq__lte=seq, kind__startswith="run.")
        .order_by("-seq")
        .values_list("kind", flat=True)
        .first()
        or EventKind.RUN_QUEUED,
        checkpoint=_checkpoint(then, inspect=inspect),
        left=rows.filter(seq__gt=seq, kind=EventKind.RUN_RESTORED).exists() and not _on_line(nodes, then),
        earlier=rows.filter(STEPS, seq__lt=seq).order_by("-seq").values_list("seq", flat=True).first() or 0,
        later=rows.filter(STEPS, seq__gt=seq).order_by("seq").values_list("seq", flat=True).first() or 0,
    )


def ranges_at(run_id: str, then: list[CheckpointNode], seq: int) -> list[EventRange]:
    """Return the event ranges that led to event ``seq``, given the checkpoints at that time."""
    low = then[-1].seq if then else 0
    before = ranges_of(run_id, then, then[-1].id) if then else []
    return [EventRange(run=run_id, low=low, high=seq), *before] if seq > low else before


def _checkpoint(then: list[CheckpointNode], *, inspect: bool) -> CheckpointRecord | None:
    row = models.Checkpoint.objects.defer("body").filter(pk=then[-1].id).first() if then else None
    return CheckpointRecord.of(shown_info(row, inspect=inspect)) if row else None


def _on_line(nodes: list[CheckpointNode], then: list[CheckpointNode]) -> bool:
    """Return whether the newest checkpoint of that time is on the current branch."""
    known = {node.id: node.parent for node in nodes}
    here: str | None = nodes[-1].id if nodes else None
    while here is not None and then:
        if here == then[-1].id:
            return True
        here = known.get(here)
    return not then


def _past_requests(run_id: str, at: datetime) -> tuple[PastRequestRecord, ...]:
    open_then = Q(closed__isnull=True) | Q(closed__gt=at)
    unanswered = Q(answered__isnull=True) | Q(answered__gt=at)
    rows = models.HumanRequest.objects.filter(open_then, unanswered, run_id=run_id, created__lte=at)
    return tuple(
        PastRequestRecord.trusted(
            id=row.pk,
            step=row.step,
            subject=subject_of(row),
            created=row.created,
            became="answered" if row.answered else row.closed_as,
        )
        for row in rows.order_by("created", "id")[:MAX_SHOWN_ROWS]
    )
