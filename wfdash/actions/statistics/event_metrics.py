"""Metrics of events. Read-only; a constant number of queries, however many events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.db.models.fields.json import KT

from checkpoints.content.encryption import Locked
from checkpoints.errors import Damaged
from checkpoints.events import EventKind
from checkpoints.models import Event, HumanRequest, Run
from checkpoints.models.fields import StoredDocument, decrypted
from checkpoints.records import SIGNAL
from wfdash.domain.histograms import ALL_TIME, SIZED, Measure, asked_of, bucket_of

LONGEST = 200
"""Characters per column."""


class MetricKey(NamedTuple):
    """The key of a metrics row."""

    measure: str
    hour: datetime
    workflow: str
    step: str
    label: str
    bucket: int


@dataclass
class MetricSums:
    """A count, and a total duration in seconds."""

    count: int = 0
    total: float = 0.0


class CountedEvent(NamedTuple):
    """The parts of an event that are counted."""

    run: str
    seq: int
    kind: str
    step: str
    at: datetime
    ms: str | None
    request: str | None


class Measurement(NamedTuple):
    """One thing to count."""

    measure: Measure
    step: str = ""
    label: str = ""
    seconds: float = 0.0


class AnsweredRequest(NamedTuple):
    """A request that was answered: who it was addressed to, since when, and when it was decided (None: by no
    person).
    """

    step: str
    kind: str
    by: list[str]
    opened: datetime
    decided: datetime | None


@dataclass(frozen=True, kw_only=True)
class EventContext:
    """What events do not contain themselves."""

    runs: dict[str, tuple[str, datetime]]
    """Run -> workflow, created."""
    requests: dict[str, AnsweredRequest] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    errors: dict[tuple[str, int], str] = field(default_factory=dict)


def measure_events(after: int, last: int, using: str | None = None) -> dict[MetricKey, MetricSums]:
    """Return the metrics of the events with these ids: each both in its hour and under ``ALL_TIME``."""
    events = _counted_events(after, last, using)
    context = _look_up(events, using)
    sums: dict[MetricKey, MetricSums] = {}
    for event in events:
        if event.run not in context.runs:
            continue
        workflow, hour = context.runs[event.run][0], _hour(event.at)
        for found in MEASURED[event.kind](event, context):
            _add_measurement(sums, found, workflow, hour)
    return sums


def _add_measurement(sums: dict[MetricKey, MetricSums], found: Measurement, workflow: str, hour: datetime) -> None:
    bucket = bucket_of(found.seconds) if found.measure in SIZED else 0
    for at in (hour, ALL_TIME):
        key = MetricKey(found.measure.value, at, workflow, found.step[:LONGEST], found.label[:LONGEST], bucket)
        row = sums.setdefault(key, MetricSums())
        row.count += 1
        row.total += found.seconds


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _counted_events(after: int, last: int, using: str | None) -> list[CountedEvent]:
    rows = Event.objects.using(using).filter(pk__gt=after, pk__lte=last, kind__in=MEASURED)
    # Only the fields that are counted: an event may carry a step's whole output.
    rows = rows.annotate(ms=KT("data__ms"), request=KT("data__request")).order_by("pk")
    return [
        CountedEvent(run, seq, kind, step or "", at, ms, request)
        for run, seq, kind, step, at, ms, request in rows.values_list(
            "run_id", "seq", "kind", "step", "at", "ms", "request"
        )
    ]


def _look_up(events: list[CountedEvent], using: str | None) -> EventContext:
    runs = Run.objects.using(using).filter(pk__in={event.run for event in events})
    asked = {event.request for event in events if event.kind == EventKind.REQUEST_ANSWERED and event.request}
    groups = Group.objects.using(using).values_list("name", flat=True) if asked else ()
    return EventContext(
        runs={pk: (workflow, created) for pk, workflow, created in runs.values_list("pk", "workflow", "created")},
        requests=_requests(asked, using) if asked else {},
        groups=frozenset(groups),
        errors=_errors([event for event in events if event.kind == EventKind.RUN_FAILED], using),
    )


def _requests(ids: Iterable[str], using: str | None) -> dict[str, AnsweredRequest]:
    rows = HumanRequest.objects.using(using).filter(pk__in=ids)
    found = rows.values_list("pk", "step", "kind", "by", "created", "answer__at", "answer__by_id")
    return {
        pk: AnsweredRequest(step, kind, by, at, decided if who else None)
        for pk, step, kind, by, at, decided, who in found
    }


def _errors(failed: list[CountedEvent], using: str | None) -> dict[tuple[str, int], str]:
    """Return the class of the error of each failure; it is readable even where events are encrypted."""
    if not failed:
        return {}
    wanted = {(event.run, event.seq) for event in failed}
    rows = Event.objects.using(using).filter(run__in={run for run, _ in wanted}, kind=EventKind.RUN_FAILED)
    found = rows.values_list("run_id", "seq", "data")
    return {(run, seq): _error_class(data, run, seq) for run, seq, data in found if (run, seq) in wanted}


def _error_class(data: Any, run: str, seq: int) -> str:
    try:
        error = (
            decrypted(Event, "data", data, run, str(seq)).get("error")
            if isinstance(data, (StoredDocument, dict))
            else None
        )
    except (Damaged, Locked):
        return ""
    return str(error.get("type", "")) if isinstance(error, dict) else ""


def _seconds_between(begin: datetime, end: datetime) -> float:
    return max((end - begin).total_seconds(), 0.0)


def _began(event: CountedEvent, context: EventContext) -> Iterator[Measurement]:
    yield Measurement(Measure.STARTED)
    yield Measurement(Measure.QUEUE, seconds=_seconds_between(context.runs[event.run][1], event.at))


def _completed(event: CountedEvent, context: EventContext) -> Iterator[Measurement]:
    yield Measurement(Measure.COMPLETED)
    yield Measurement(Measure.RUN, seconds=_seconds_between(context.runs[event.run][1], event.at))


def _failed(event: CountedEvent, context: EventContext) -> Iterator[Measurement]:
    yield Measurement(Measure.FAILED, label=context.errors.get((event.run, event.seq), ""))


def _finished(event: CountedEvent, context: EventContext) -> Iterator[Measurement]:
    try:
        seconds = float(event.ms or "") / 1000
        bucket_of(seconds)
    except ValueError:
        return
    yield Measurement(Measure.STEP, step=event.step, seconds=max(seconds, 0.0))


def _answered(event: CountedEvent, context: EventContext) -> Iterator[Measurement]:
    asked = context.requests.get(event.request or "")
    if asked is None or asked.kind == SIGNAL:
        return
    if asked.decided is None:
        yield Measurement(Measure.LAPSED, step=asked.step)
        return
    seconds = _seconds_between(asked.opened, asked.decided)
    yield Measurement(Measure.DECISION, step=asked.step, seconds=seconds)
    for label in asked_of(asked.by, context.groups):
        yield Measurement(Measure.ASKED, label=label, seconds=seconds)


def _one_measurement(
    measure: Measure, *, by_step: bool = False, label: str = ""
) -> Callable[[CountedEvent, EventContext], Iterator[Measurement]]:
    def counted(event: CountedEvent, context: EventContext) -> Iterator[Measurement]:
        yield Measurement(measure, step=event.step if by_step else "", label=label)

    return counted


MEASURED: dict[str, Callable[[CountedEvent, EventContext], Iterator[Measurement]]] = {
    EventKind.RUN_STARTED: _began,
    EventKind.RUN_FORKED: _one_measurement(Measure.STARTED, label="fork"),
    EventKind.RUN_COMPLETED: _completed,
    EventKind.RUN_FAILED: _failed,
    EventKind.RUN_CANCELLED: _one_measurement(Measure.CANCELLED),
    EventKind.RUN_RECOVERED: _one_measurement(Measure.RECOVERED),
    EventKind.STEP_FINISHED: _finished,
    EventKind.STEP_FAILED: _one_measurement(Measure.STEP_FAILED, by_step=True),
    EventKind.STEP_RETRYING: _one_measurement(Measure.STEP_RETRIED, by_step=True),
    EventKind.REQUEST_ANSWERED: _answered,
}
"""Kinds of events that are counted, and how."""
