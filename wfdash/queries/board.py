"""Per step counts for the graph: what every activation of every step is doing, along the lineage that counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Q, When
from django.db.models.fields.json import KT

from checkpoints.models import Event
from wfdash.queries.lineage import Span, span_filter, spans_to
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


@dataclass(frozen=True, kw_only=True)
class Move:
    """An activation of a step came into a state: running, done, failed, retrying, waiting or sleeping."""

    step: str
    activation: str
    state: str
    at: datetime


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


def board(run_id: str) -> dict[str, StepCounts]:
    """Return step name -> counts. The run must have been found through its viewer before (two queries)."""
    return fold(spans_to(run_id))


def fold(spans: list[Span]) -> dict[str, StepCounts]:
    """Count the last state of every activation within these stretches (one query)."""
    return count(_moves(spans))


def moves(run_id: str) -> list[Move]:
    """Return what the run's steps did, oldest first, along the lineage that counts (two queries).

    What happened in a run before it was forked from there is part of it. The run must have been found through its
    viewer before.
    """
    return _moves(spans_to(run_id))


def count(moved: Iterable[Move]) -> dict[str, StepCounts]:
    """Return step name -> counts of the last state of every activation. Pure."""
    last = {(move.step, move.activation): move.state for move in moved}
    counters: dict[str, Counter[str]] = {}
    for (step, _), state in last.items():
        counters.setdefault(step, Counter())[state] += 1
    return {step: StepCounts(**counter) for step, counter in counters.items()}


def _moves(spans: list[Span]) -> list[Move]:
    """Return the moves within these stretches: runs in the order of their forks, each by its own seq."""
    rank = {span.run: -place for place, span in enumerate(spans)}
    kinds = Q(kind__in=BECOMES, step__isnull=False) | Q(kind__in=CARRIED)
    rows = Event.objects.filter(span_filter(spans), kinds).annotate(
        activation=KT("data__activation"), names=_if_carried("data__names"), ended=_if_carried("data__ended")
    )
    found: Iterable[tuple[Any, ...]] = rows.values_list(
        "run_id", "seq", "kind", "step", "activation", "at", "names", "ended"
    )
    moved: list[Move] = []
    for _, _, kind, step, activation, at, names, ended in sorted(found, key=lambda row: (rank[row[0]], row[1])):
        if kind in BECOMES:
            moved.append(Move(step=step, activation=activation or "", state=BECOMES[kind], at=at))
        else:
            moved = carry_moves(moved, json.loads(names or "{}"), json.loads(ended or "[]"), at)
    return moved


def _if_carried(path: str) -> Case:
    return Case(When(kind__in=CARRIED, then=KT(path)))


def carry_moves(moved: list[Move], names: dict[str, str], ended: list[str], at: datetime) -> list[Move]:
    """Return the moves by the steps' new names; activations that were dropped or moved are over. Pure."""
    called = Renaming(names)
    kept = [replace(move, step=called.of(move.step)) for move in moved]
    last = {move.activation: move for move in kept if move.activation in ended}
    return [*kept, *(replace(move, state="done", at=at) for move in last.values())]
