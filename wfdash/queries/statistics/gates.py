"""How the questions of workflows are decided: by gate (the step that asks) and by who was asked, over time.

One bounded query reads the latest decisions of the time range; everything is derived from these rows, so that a chart,
its table and the list of decisions say the same. Nothing is distinguished by person.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.core.exceptions import EmptyResultSet
from django.db.models import Q, QuerySet
from django.utils import timezone

from checkpoints.database.alias import connection
from checkpoints.models import HumanRequest
from wfdash.access.viewer import Viewer
from wfdash.domain.histograms import Spread, asked_of
from wfdash.errors import NotFound
from wfdash.queries.requests.decision_filter import ANSWERED, OUTCOMES, outcome, reversed_later
from wfdash.queries.statistics.slots import Slot, moment, slot_finder

MOST_DECISIONS = 20_000
"""The latest decisions of a time range; older ones are left out, and that is said."""
MOST_GATES = 12
SUMMARY_DAYS = 30
DEADLINE = "deadline"
REVERSED = "reversed"
TREND = (*(name for name in OUTCOMES if name != DEADLINE), DEADLINE, REVERSED)
COLUMNS = ("workflow", "step", "outcome", "reversed", "created", "answered", "answer__at", "by")


class GateDecision(NamedTuple):
    """A decision of a gate: how it was decided, in which slot, after how many seconds (None: by the deadline)."""

    outcome: str
    reversed: bool
    place: int
    seconds: float | None


GateDecisions = dict[tuple[str, str], list[GateDecision]]
"""By workflow and step."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The decisions of one gate. ``counts``: of each of ``TREND`` by slot; ``times``: what people took, by slot."""

    workflow: str
    step: str
    counts: dict[str, tuple[int, ...]]
    spread: Spread
    times: tuple[Spread, ...]

    def total(self, name: str) -> int:
        """Return how many decisions were of this kind."""
        return sum(self.counts[name])

    @property
    def decided(self) -> int:
        """Return how many decisions there were."""
        return sum(self.total(name) for name in OUTCOMES)


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """The decisions of a time range. ``more``: there were more than were read."""

    gates: tuple[Gate, ...] = ()
    asked: dict[str, Spread] = field(default_factory=dict)
    """Who was asked (see ``asked_of``) -> what people took."""
    times: tuple[Spread, ...] = ()
    """By slot, over all gates."""
    more: bool = False


def decisions_in(mine: Q, slots: Sequence[Slot]) -> Decisions:
    """Return the decisions in these slots (two queries)."""
    rows = HumanRequest.objects.filter(ANSWERED, mine, answered__gte=slots[0].since, answered__lt=slots[-1].until)
    named = rows.annotate(outcome=outcome(), reversed=reversed_later()).order_by("-answered")
    read = _plain_rows(named.values_list(*COLUMNS)[: MOST_DECISIONS + 1])
    gates, asked = _sorted_out(read[:MOST_DECISIONS], slots)
    return Decisions(
        gates=_gates(gates, len(slots)),
        asked=_asked(asked),
        times=_by_slot((one for those in gates.values() for one in those), len(slots)),
        more=len(read) > MOST_DECISIONS,
    )


def _plain_rows(rows: QuerySet[Any, Any]) -> list[tuple[Any, ...]]:
    """Return rows as the database has them: to convert all values of 20,000 takes longer than to read them."""
    try:
        sql, params = rows.query.get_compiler(connection=connection()).as_sql()
    except EmptyResultSet:
        return []
    with connection().cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def _sorted_out(rows: Iterable[tuple[Any, ...]], slots: Sequence[Slot]) -> tuple[GateDecisions, dict[str, list[float]]]:
    """Return the decisions by gate, and by the text of who was asked the seconds that people took."""
    find, gates, asked = slot_finder(slots), GateDecisions(), defaultdict[str, list[float]](list)
    for workflow, step, how, back, created, answered, given, by in rows:
        decided, seconds = moment(answered), None
        if how != DEADLINE:
            # By when the person gave it, not by when it took effect.
            took = (moment(given) if given else decided) - moment(created)
            seconds = max(took.total_seconds(), 0.0)
            asked[by].append(seconds)
        gates.setdefault((workflow, step), []).append(GateDecision(how, bool(back), find(decided) or 0, seconds))
    return gates, asked


def gates_of(viewer: Viewer, workflow: str, days: int = SUMMARY_DAYS) -> tuple[Gate, ...]:
    """Return how the questions of a workflow were decided in the last days, in one slot (two queries)."""
    if not viewer.may("see", workflow):
        raise NotFound("Workflow not found, or you do not have access")
    now = timezone.now()
    whole = Slot(since=now - timedelta(days=days), until=now + timedelta(minutes=1))
    return decisions_in(Q(workflow=workflow), [whole]).gates


def spread_of_seconds(values: Iterable[float | None]) -> Spread:
    """Return the summary of durations: each quantile is one of them."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return Spread()
    at = {part: known[max(math.ceil(part * len(known)) - 1, 0)] for part in (0.5, 0.95)}
    return Spread(count=len(known), p50=at[0.5], p95=at[0.95], mean=sum(known) / len(known))


def _gates(found: GateDecisions, slots: int) -> tuple[Gate, ...]:
    """Return the gates with the most decisions."""
    largest = sorted(found.items(), key=lambda gate: (-len(gate[1]), gate[0]))[:MOST_GATES]
    return tuple(_gate(workflow, step, those, slots) for (workflow, step), those in largest)


def _gate(workflow: str, step: str, found: list[GateDecision], slots: int) -> Gate:
    counts = Counter((one.outcome, one.place) for one in found)
    counts.update((REVERSED, one.place) for one in found if one.reversed)
    return Gate(
        workflow=workflow,
        step=step,
        counts={name: tuple(counts[name, place] for place in range(slots)) for name in TREND},
        spread=spread_of_seconds(one.seconds for one in found),
        times=_by_slot(found, slots),
    )


def _by_slot(found: Iterable[GateDecision], slots: int) -> tuple[Spread, ...]:
    seconds: defaultdict[int, list[float | None]] = defaultdict(list)
    for one in found:
        seconds[one.place].append(one.seconds)
    return tuple(spread_of_seconds(seconds[place]) for place in range(slots))


def _asked(found: dict[str, list[float]]) -> dict[str, Spread]:
    groups = frozenset(Group.objects.values_list("name", flat=True))
    seconds: defaultdict[str, list[float | None]] = defaultdict(list)
    for by, took in found.items():
        for label in asked_of(json.loads(by), groups):
            seconds[label] += took
    return {label: spread_of_seconds(values) for label, values in seconds.items()}
