"""Step states along the current branch, past and current: for graph and timeline."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from django.db.models import Case, Q, When
from django.utils.dateparse import parse_datetime

from checkpoints.events import EventKind
from checkpoints.models import Event
from checkpoints.models.fields import KT
from checkpoints.records import frozen
from wfdash.queries.history import EventRange, range_filter, ranges_to
from wfdash.records.checkpoints import StateCounts
from wfdash.workflow.migration import Renaming

# A cache of what was derived from the events of recently viewed runs, so that an open page reads only new ones.

T = TypeVar("T")
MIN_CACHED = 300
"""Shorter lists are read as fast as they are looked up."""
MAX_CACHED = 150_000
"""Maximum items in all, of a few hundred bytes each; the least recently used entry is evicted first."""


@frozen
class _Entry(Generic[T]):
    ranges: list[EventRange]
    things: list[T]


class EventCache(Generic[T]):
    """A bounded, thread-safe LRU cache, one per process."""

    def __init__(self, *, min_cached: int = MIN_CACHED, max_cached: int = MAX_CACHED) -> None:
        self._min_cached, self._max_cached = min_cached, max_cached
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()
        self._lock = Lock()

    def follow(
        self, key: str, ranges: list[EventRange], read: Callable[[list[T], list[EventRange]], tuple[list[T], int]]
    ) -> list[T]:
        """Return the items that ``read`` derives from these ranges (newest first; the newest has no end).

        ``read`` gets the cached items and the ranges that follow; it returns a new list and the highest seq that it
        saw in the newest range, 0 for none. It reads in one query: events are committed in order, so the next read
        continues from there. Lists are never changed.
        """
        with self._lock:
            entry = self._entries.get(key)
        known, left = ([], ranges) if entry is None else (entry.things, _uncached(entry.ranges, ranges))
        if left is None:
            known, left = [], ranges
        things, seen = read(known, left)
        if len(things) >= self._min_cached:
            newest = replace(ranges[0], high=max(seen, left[0].low))
            self._store(key, _Entry(ranges=[newest, *ranges[1:]], things=things))
        return things

    def _store(self, key: str, entry: _Entry[T]) -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > 1 and sum(len(one.things) for one in self._entries.values()) > self._max_cached:
                self._entries.popitem(last=False)


def _uncached(known: list[EventRange], ranges: list[EventRange]) -> list[EventRange] | None:
    """Return the part of the ranges that is not cached; None if they are others (a restore, another branch)."""
    if not ranges or known[1:] != ranges[1:] or ranges[0].high is not None:
        return None
    old, new = known[0], ranges[0]
    if (old.run, old.low) != (new.run, new.low):
        return None
    return [replace(new, low=old.high or 0)]


# Idle periods of a run, in which no step runs whatever its last event was. Pure.

STOPPING = frozenset(
    {
        *(EventKind.RUN_PAUSED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED),
        *(EventKind.RUN_COMPLETED, EventKind.RUN_HELD),
    }
)
RESUMING = frozenset(
    {
        *(EventKind.RUN_RESUMED, EventKind.RUN_RETRIED, EventKind.RUN_RELEASED),
        *(EventKind.RUN_OVERRIDDEN, EventKind.RUN_MIGRATED),
    }
)
RUNNING = frozenset({"running", "retrying"})
OPEN = RUNNING | {"waiting", "sleeping"}
STOPPED = "stopped"


def stop_all(transitions: list[StepTransition], at: datetime, states: frozenset[str] = RUNNING) -> None:
    """Append a transition to stopped for every activation in one of these states."""
    transitions += [
        replace(item, state=STOPPED, was=item.state, at=max(at, item.at))
        for item in _last_in_states(transitions, states)
    ]


def resume_all(transitions: list[StepTransition], at: datetime) -> None:
    """Append, for every stopped activation, its return to the state before; one that awaited a retry runs."""
    stopped = _last_in_states(transitions, frozenset({STOPPED}))
    transitions += [
        replace(item, state="running" if item.was in RUNNING else item.was, was="", at=at) for item in stopped
    ]


def skip_gap(transitions: list[StepTransition], at: datetime) -> None:
    """Append that all were stopped between the last transition and this time: the run continued from there."""
    if transitions:
        stop_all(transitions, transitions[-1].at, OPEN)
        resume_all(transitions, at)


def undo_stop(transitions: list[StepTransition], step: str, activation: str) -> None:
    """Remove an activation's transition to stopped: it ended normally, which a pause allows."""
    for index in range(len(transitions) - 1, -1, -1):
        item = transitions[index]
        if (item.step, item.activation) == (step, activation):
            if item.state == STOPPED:
                del transitions[index]
            return


def _last_in_states(transitions: Iterable[StepTransition], states: frozenset[str]) -> list[StepTransition]:
    last = {(item.step, item.activation): item for item in transitions}
    return [item for item in last.values() if item.state in states]


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
    *(*STOPPING, *RESUMING),
    *(EventKind.RUN_QUEUED, EventKind.RUN_FORKED, EventKind.RUN_STARTED, EventKind.RUN_RECOVERED),
)
"""Events of the run that stop or resume its steps."""


_cache: EventCache[StepTransition] = EventCache()


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
        stop_all(transitions, transitions[-1].at, frozenset({"running"}))
    return [*transitions, *_due_retries(transitions, driven_at)] if driven_at else transitions


def count_states(transitions: Iterable[StepTransition]) -> dict[str, StateCounts]:
    """Return step name -> counts of the last state of every activation. Pure."""
    last = {(item.step, item.activation): item.state for item in transitions}
    counters = Counter((step, state) for (step, _), state in last.items())
    found: dict[str, dict[str, int]] = {}
    for (step, state), number in counters.items():
        found.setdefault(step, {})[state] = number
    return {step: StateCounts.trusted(**numbers) for step, numbers in found.items()}


class TimeSpent(NamedTuple):
    """How long a run worked, waited for people, times and retries only, and did neither. Seconds."""

    worked: float
    waited: float
    idle: float


def time_spent(transitions: Iterable[StepTransition], begin: datetime, end: datetime) -> TimeSpent:
    """Return what a run's time from its creation up to its end, or now, was spent with. Pure."""
    states: dict[tuple[str, str], str] = {}
    numbers, spent = Counter[str](), dict.fromkeys(TimeSpent._fields, 0.0)
    for move in [*transitions, StepTransition("", "", "", end)]:
        to = min(max(move.at, begin), end)
        doing = "worked" if numbers["running"] else "waited" if any(numbers[state] for state in OPEN) else "idle"
        spent[doing] += (to - begin) / timedelta(seconds=1)
        begin, key = to, (move.step, move.activation)
        numbers[states.get(key, "")] -= 1
        numbers[move.state] += 1
        states[key] = move.state
    return TimeSpent(*(round(seconds, 3) for seconds in spent.values()))


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
    stopped: set[tuple[str, str]] = set()
    looked_at = 0
    for run, seq, kind, step, activation, at, more, ended in rows:
        if transitions and not _follows(transitions[-1], run, seq, ranges):
            skip_gap(transitions, at)
            retrying = _retrying(transitions)
        if kind in MIGRATED:
            transitions = migrate_transitions(transitions, json.loads(more or "{}"), json.loads(ended or "[]"), at)
            looked_at = 0
        if kind in RUN_EVENTS:
            # Append the transitions that an event of the run implies.
            if kind in STOPPING:
                stop_all(transitions, at)
            elif kind in RESUMING:
                resume_all(transitions, at)
            transitions.append(StepTransition("", "", kind, at, run, seq))
            retrying = _retrying(transitions)
            continue
        if kind in QUESTION_EVENTS:
            questions.take(transitions, StepTransition("", activation or "", kind, at, run, seq, question=more or ""))
            continue
        activation, state = activation or "", STATE_AFTER[kind]
        stopped |= {(one.step, one.activation) for one in transitions[looked_at:] if one.state == STOPPED}
        if (step, activation) in stopped:
            undo_stop(transitions, step, activation)
        looked_at = len(transitions)
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
    if (last.run, last.seq) == (run, seq - 1):
        return True
    part = next(
        part for part in ranges if part.run == run and part.low < seq and (part.high is None or seq <= part.high)
    )
    return last.run == run and last.seq >= part.low


def migrate_transitions(
    transitions: list[StepTransition], names: dict[str, str], ended: list[str], at: datetime
) -> list[StepTransition]:
    """Return the transitions under the steps' new names; activations that were dropped have ended. Pure."""
    called = Renaming(names)
    kept = [replace(item, step=called.of(item.step)) if item.step else item for item in transitions]
    last = {item.activation: item for item in kept if item.activation in ended}
    return [*kept, *(replace(item, state="done", at=at) for item in last.values())]


# Which questions of a step's activations are open, by a run's events: a step whose last one is answered runs. Pure.

OPENED = EventKind.REQUEST_OPENED
ANSWERED = frozenset({EventKind.REQUEST_ANSWERED, EventKind.SIGNAL_RECEIVED})
QUESTION_EVENTS = (OPENED, *sorted(ANSWERED), EventKind.REQUEST_WITHDRAWN)


class OpenQuestions:
    """The questions that the events so far leave open, by activation. Only engines name the activation that asks."""

    def __init__(self, transitions: Iterable[StepTransition]) -> None:
        self._askers: dict[str, str] = {}
        self._open: set[str] = set()
        for item in transitions:
            if item.question:
                self._note(item)

    def take(self, transitions: list[StepTransition], marker: StepTransition) -> None:
        """Append the marker of a question's event, and that its step runs again if that was its last answer.

        While the run is idle the step is stopped instead, and runs once the run is resumed.
        """
        transitions.append(marker)
        self._note(marker)
        asker = self._askers.get(marker.question)
        if marker.state not in ANSWERED or asker is None or self._is_asking(asker):
            return
        last = next((item for item in reversed(transitions) if item.step and item.activation == asker), None)
        if last is not None and last.state == "waiting":
            transitions.append(_continued(last, marker.at, idle=_is_idle(transitions)))

    def _note(self, marker: StepTransition) -> None:
        if marker.state == OPENED:
            self._open.add(marker.question)
            if marker.activation:
                self._askers[marker.question] = marker.activation
        else:
            self._open.discard(marker.question)

    def _is_asking(self, activation: str) -> bool:
        return any(self._askers.get(question) == activation for question in self._open)


def _continued(waiting: StepTransition, at: datetime, *, idle: bool) -> StepTransition:
    if idle:
        return replace(waiting, state=STOPPED, was="running", at=at)
    return replace(waiting, state="running", at=at)


def _is_idle(transitions: list[StepTransition]) -> bool:
    """Return whether the last event of the run that stops or resumes its steps stopped them."""
    moves = (item.state for item in reversed(transitions) if not item.step)
    return next((state in STOPPING for state in moves if state in STOPPING or state in RESUMING), False)


@dataclass(frozen=True, slots=True)
class StepTransition:
    """A state that an activation entered: running, done, failed, retrying, waiting, sleeping or stopped.

    ``run``, ``seq``: its event. ``until``: when a retry is due. ``skipped``: done without running, because its
    condition did not hold. ``stopped``: the run was idle.
    """

    step: str
    activation: str
    state: str
    at: datetime
    run: str = ""
    seq: int = 0
    until: datetime | None = None
    skipped: bool = False
    was: str = ""
    """The state before it stopped."""
    question: str = ""
    """The key of the question that it is about; then it is no state of a step, but a marker."""
