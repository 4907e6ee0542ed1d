"""Per step counts for the graph: what every activation of every step is doing, along the lineage that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KT

from checkpoints.models import Event
from wfdash.queries.lineage import Span, span_filter, spans_to

BECOMES = {
    "step.started": "running",
    "step.finished": "done",
    "step.failed": "failed",
    "step.retrying": "retrying",
    "step.waiting": "waiting",
    "step.sleeping": "sleeping",
}


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
    last: dict[tuple[str, str], str] = {}
    for kind, step, activation in _step_events(spans):
        last[step, activation] = BECOMES[kind]
    counters: dict[str, Counter[str]] = {}
    for (step, _), state in last.items():
        counters.setdefault(step, Counter())[state] += 1
    return {step: StepCounts(**counter) for step, counter in counters.items()}


def _step_events(spans: list[Span]) -> list[tuple[str, str, str]]:
    """Return (kind, step, activation), oldest first: runs in the order of their forks, each by its own seq."""
    rank = {span.run: -place for place, span in enumerate(spans)}
    rows = Event.objects.filter(span_filter(spans), kind__in=BECOMES, step__isnull=False)
    rows = rows.annotate(activation=KT("data__activation"))
    found: Iterable[tuple[Any, ...]] = rows.values_list("run_id", "seq", "kind", "step", "activation")
    ordered = sorted(found, key=lambda row: (rank[row[0]], row[1]))
    return [(kind, step, activation or "") for _, _, kind, step, activation in ordered]
