"""Step states along the current branch, past and current: for graph and timeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Q, When
from django.db.models.fields.json import KT
from django.utils.dateparse import parse_datetime

from checkpoints.events import EventKind
from checkpoints.models import Event
from wfdash.queries.history import idle_periods
from wfdash.queries.history.event_cache import EventCache
from wfdash.queries.history.lineage import EventRange, range_filter, ranges_to
from wfdash.queries.history.open_questions import QUESTION_EVENTS, OpenQuestions
from wfdash.queries.history.step_outcomes import StepTransition
from wfdash.records.checkpoints import StateCounts
from wfdash.workflow.migration.migrating_run import Renaming

STATE_AFTER = {
    EventKind.STEP_STARTED: "running",
    EventKind.STEP_FINISHED: "done",
    EventKind.STEP_FAILED: "failed",
    EventKind.STEP_RETRYING: "retrying",
    EventKind.STEP_WAITING: "waiting",
    EventKind.STEP_SLEEPING: "sleeping",
}
MIGRATED = (EventKind.RUN_MIGRATED, EventKind.RUN_OVERRIDDEN)
RUN_EVENTS = (
    *(*idle_periods.STOPPING, *idle_periods.RESUMING),
    *(EventKind.RUN_QUEUED, EventKind.RUN_FORKED, EventKind.RUN_STARTED, EventKind.RUN_RECOVERED),
)
"""Events of the run that stop or resume its steps."""


_cache: EventCache[StepTransition] = EventCache()


def step_counts(run_id: str) -> dict[str, StateCounts]:
    """Return step name -> counts. The run must have been found through its viewer before (two queries)."""
    return count_states(step_transitions(run_id))


def counts_within(ranges: list[EventRange]) -> dict[str, StateCounts]:
    """Return step name -> counts of the last state of every activation within these ranges (one query)."""
    return count_states(transitions_within(ranges))


def transitions_within(ranges: list[EventRange]) -> list[StepTransition]:
    """Return the transitions within these ranges, oldest first (one query)."""
    return without_run_events(_read_transitions([], ranges)[0])


def step_transitions(run_id: str, *, driven_at: datetime | None = None, driven: bool = True) -> list[StepTransition]:
    """Return the transitions of the run's steps along the current branch, oldest first (two queries).

    Those of ancestors before a fork are included. The run must have been found through its viewer before.
    ``driven_at``: the current time if a worker drives the run: retries that are due by then count as running.
    ``driven``: False if no worker does: then no step runs. Of recently viewed runs only new events are read.
    """
    transitions = without_run_events(_cache.follow(run_id, ranges_to(run_id), _read_transitions))
    if not driven and transitions:
        idle_periods.stop_all(transitions, transitions[-1].at, frozenset({"running"}))
    return [*transitions, *_due_retries(transitions, driven_at)] if driven_at else transitions


def count_states(transitions: Iterable[StepTransition]) -> dict[str, StateCounts]:
    """Return step name -> counts of the last state of every activation. Pure."""
    last = {(item.step, item.activation): item.state for item in transitions}
    counters = Counter((step, state) for (step, _), state in last.items())
    found: dict[str, dict[str, int]] = {}
    for (step, state), number in counters.items():
        found.setdefault(step, {})[state] = number
    return {step: StateCounts.trusted(**numbers) for step, numbers in found.items()}


def _due_retries(transitions: list[StepTransition], now: datetime) -> list[StepTransition]:
    due = [item for item in _retrying(transitions).values() if item.until and item.until <= now]
    return [replace(item, state="running", at=item.until or item.at) for item in due]


def _retrying(transitions: list[StepTransition]) -> dict[str, StepTransition]:
    last = {item.activation: item for item in transitions}
    return {activation: item for activation, item in last.items() if item.state == "retrying"}


def _read_transitions(transitions: list[StepTransition], ranges: list[EventRange]) -> tuple[list[StepTransition], int]:
    """Return the transitions extended by those in these ranges, in the order of the forks, and the last seq."""
    migrated = Q(kind__in=MIGRATED)
    wanted = Q(kind__in=STATE_AFTER, step__isnull=False) | Q(kind__in=(*RUN_EVENTS, *QUESTION_EVENTS))
    rows = Event.objects.filter(range_filter(ranges), wanted).annotate(
        activation=KT("data__activation"),
        more=Case(
            When(kind=EventKind.STEP_RETRYING, then=KT("data__at")),
            When(kind=EventKind.STEP_FINISHED, then=KT("data__skipped")),
            When(kind__in=QUESTION_EVENTS, then=KT("data__key")),
            When(migrated, then=KT("data__names")),
        ),
        ended=Case(When(migrated, then=KT("data__ended"))),
    )
    columns = ("run_id", "seq", "kind", "step", "activation", "at", "more", "ended")
    found: list[tuple[Any, ...]] = list(rows.values_list(*columns).order_by())
    rank = {part.run: -index for index, part in enumerate(ranges)}
    found.sort(key=lambda row: (rank[row[0]], row[1]))
    seen = max((row[1] for row in found if row[0] == ranges[0].run), default=0) if ranges else 0
    return _extended(list(transitions), found, ranges), seen


def without_run_events(transitions: Iterable[StepTransition]) -> list[StepTransition]:
    """Return the transitions of steps, without the markers of the run's own events and of questions. Pure."""
    return [item for item in transitions if item.step]


def _extended(
    transitions: list[StepTransition], rows: list[tuple[Any, ...]], ranges: list[EventRange]
) -> list[StepTransition]:
    """Return the transitions extended by rows. No event marks the start of a retry: its due time is used."""
    retrying, questions = _retrying(transitions), OpenQuestions(transitions)
    for run, seq, kind, step, activation, at, more, ended in rows:
        if transitions and not _follows(transitions[-1], run, seq, ranges):
            idle_periods.skip_gap(transitions, at)
            retrying = _retrying(transitions)
        if kind in MIGRATED:
            transitions = migrate_transitions(transitions, json.loads(more or "{}"), json.loads(ended or "[]"), at)
        if kind in RUN_EVENTS:
            _apply_run_event(transitions, kind, at)
            transitions.append(StepTransition("", "", kind, at, run, seq))
            retrying = _retrying(transitions)
            continue
        if kind in QUESTION_EVENTS:
            questions.take(transitions, StepTransition("", activation or "", kind, at, run, seq, question=more or ""))
            continue
        activation, state = activation or "", STATE_AFTER[kind]
        idle_periods.undo_stop(transitions, step, activation)
        waited = retrying.pop(activation, None)
        if waited and waited.until and state != "running":
            transitions.append(replace(waited, step=step, state="running", at=min(waited.until, at)))
        until = parse_datetime(more) if more and state == "retrying" else None
        item = StepTransition(step, activation, state, at, run, seq, until, bool(more) and state == "done")
        transitions.append(item)
        if state == "retrying":
            retrying[activation] = item
    return transitions


def _follows(last: StepTransition, run: str, seq: int, ranges: list[EventRange]) -> bool:
    """Return whether an event lies in the same range as the one before, with none left out between them."""
    part = next(
        part for part in ranges if part.run == run and part.low < seq and (part.high is None or seq <= part.high)
    )
    return last.run == run and last.seq >= part.low


def _apply_run_event(transitions: list[StepTransition], kind: str, at: datetime) -> None:
    """Append the transitions that an event of the run implies."""
    if kind in idle_periods.STOPPING:
        idle_periods.stop_all(transitions, at)
    elif kind in idle_periods.RESUMING:
        idle_periods.resume_all(transitions, at)


def migrate_transitions(
    transitions: list[StepTransition], names: dict[str, str], ended: list[str], at: datetime
) -> list[StepTransition]:
    """Return the transitions under the steps' new names; activations that were dropped have ended. Pure."""
    called = Renaming(names)
    kept = [replace(item, step=called.of(item.step)) if item.step else item for item in transitions]
    last = {item.activation: item for item in kept if item.activation in ended}
    return [*kept, *(replace(item, state="done", at=at) for item in last.values())]
