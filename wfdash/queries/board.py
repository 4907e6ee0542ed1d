"""What every activation of every step is doing and did, along the lineage that counts: for graph and timeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Q, When
from django.db.models.fields.json import KT
from django.utils.dateparse import parse_datetime

from checkpoints.models import Event
from wfdash.queries.lineage import Span, span_filter, spans_to
from wfdash.queries.recall import Recall
from wfdash.workflow.reposition import Renaming

BECOMES = {
    "step.started": "running",
    "step.finished": "done",
    "step.failed": "failed",
    "step.retrying": "retrying",
    "step.waiting": "waiting",
    "step.sleeping": "sleeping",
}
CARRIED = ("run.migrated", "run.overridden")


@dataclass(frozen=True, slots=True)
class Move:
    """An activation of a step came into a state: running, done, failed, retrying, waiting or sleeping.

    ``run``, ``seq``: the event that told it. ``until``: when one that is retrying begins again.
    """

    step: str
    activation: str
    state: str
    at: datetime
    run: str = ""
    seq: int = 0
    until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """How many activations of a step are in which state."""

    running: int = 0
    done: int = 0
    failed: int = 0
    retrying: int = 0
    waiting: int = 0
    sleeping: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.running + self.done + self.failed + self.retrying + self.waiting + self.sleeping

    @property
    def state(self) -> str:
        """The one word for the step: what needs attention most."""
        order = ("failed", "waiting", "retrying", "running", "sleeping", "done")
        return next((name for name in order if getattr(self, name)), "idle")


_recall: Recall[Move] = Recall()


def board(run_id: str) -> dict[str, StepCounts]:
    """Return step name -> counts. The run must have been found through its viewer before (two queries)."""
    return count(moves(run_id))


def fold(spans: list[Span]) -> dict[str, StepCounts]:
    """Count the last state of every activation within these stretches (one query)."""
    return count(_read([], spans)[0])


def moves_within(spans: list[Span]) -> list[Move]:
    """Return what steps did within these stretches, oldest first (one query)."""
    return _read([], spans)[0]


def moves(run_id: str, *, driven_at: datetime | None = None) -> list[Move]:
    """Return what the run's steps did, oldest first, along the lineage that counts (two queries).

    What happened in a run before it was forked from there is part of it. The run must have been found through its
    viewer before. ``driven_at``: now, if somebody drives the run: a retry that was due by then is under way. Of runs
    looked at lately only what is new is read.
    """
    moved = _recall.follow(run_id, spans_to(run_id), _read)
    return [*moved, *_begun_again(moved, driven_at)] if driven_at else moved


def count(moved: Iterable[Move]) -> dict[str, StepCounts]:
    """Return step name -> counts of the last state of every activation. Pure."""
    last = {(move.step, move.activation): move.state for move in moved}
    counters = Counter((step, state) for (step, _), state in last.items())
    found: dict[str, dict[str, int]] = {}
    for (step, state), number in counters.items():
        found.setdefault(step, {})[state] = number
    return {step: StepCounts(**numbers) for step, numbers in found.items()}


def _begun_again(moved: list[Move], now: datetime) -> list[Move]:
    due = [move for move in _retrying(moved).values() if move.until and move.until <= now]
    return [replace(move, state="running", at=move.until or move.at) for move in due]


def _retrying(moved: list[Move]) -> dict[str, Move]:
    last = {move.activation: move for move in moved}
    return {activation: move for activation, move in last.items() if move.state == "retrying"}


def _read(moved: list[Move], spans: list[Span]) -> tuple[list[Move], int]:
    """Return the moves with those within these stretches, runs in the order of their forks; and the last seq."""
    carried = Q(kind__in=CARRIED)
    rows = Event.objects.filter(span_filter(spans), Q(kind__in=BECOMES, step__isnull=False) | carried).annotate(
        activation=KT("data__activation"),
        more=Case(When(kind="step.retrying", then=KT("data__at")), When(carried, then=KT("data__names"))),
        ended=Case(When(carried, then=KT("data__ended"))),
    )
    columns = ("run_id", "seq", "kind", "step", "activation", "at", "more", "ended")
    found: list[tuple[Any, ...]] = list(rows.values_list(*columns).order_by())
    rank = {span.run: -place for place, span in enumerate(spans)}
    found.sort(key=lambda row: (rank[row[0]], row[1]))
    seen = max((row[1] for row in found if row[0] == spans[0].run), default=0) if spans else 0
    return _folded(list(moved), found), seen


def _folded(moved: list[Move], rows: list[tuple[Any, ...]]) -> list[Move]:
    """Go through what was told. Nobody says when a retry begins: it is when it was due, if anything came of it."""
    retrying = _retrying(moved)
    for run, seq, kind, step, activation, at, more, ended in rows:
        if kind in CARRIED:
            moved = carry_moves(moved, json.loads(more or "{}"), json.loads(ended or "[]"), at)
            retrying = _retrying(moved)
            continue
        activation, state = activation or "", BECOMES[kind]
        waited = retrying.pop(activation, None)
        if waited and waited.until and state != "running":
            moved.append(replace(waited, step=step, state="running", at=min(waited.until, at)))
        move = Move(step, activation, state, at, run, seq, parse_datetime(more) if more else None)
        moved.append(move)
        if state == "retrying":
            retrying[activation] = move
    return moved


def carry_moves(moved: list[Move], names: dict[str, str], ended: list[str], at: datetime) -> list[Move]:
    """Return the moves by the steps' new names; activations that were dropped or moved are over. Pure."""
    called = Renaming(names)
    kept = [replace(move, step=called.of(move.step)) for move in moved]
    last = {move.activation: move for move in kept if move.activation in ended}
    return [*kept, *(replace(move, state="done", at=at) for move in last.values())]
