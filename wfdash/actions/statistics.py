"""What statistics are read from: hourly metrics of events, their roll-ups, decisions by the day."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.db import connections
from django.db.models import Count, Q, Sum
from django.db.models.functions import ExtractHour, TruncDate
from django.utils import timezone

from checkpoints.database.alias import alias
from checkpoints.database.high_water_mark import ROLLUPS, STATISTICS, HighWaterMark
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import Event, HumanRequest, KnownError, Run, Tally, TallyMark, TallyRollup
from checkpoints.models.fields import KT
from checkpoints.models.operations import DecisionRollup
from checkpoints.records import SIGNAL, frozen
from checkpoints.rules import used_in
from wfdash.access.directory import people_who
from wfdash.access.viewer import Viewer
from wfdash.actions import audit
from wfdash.actions.pacing import is_outage
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.queries.statistics.durations import (
    ALL_TIME,
    DAY_SPAN,
    ROLLED_UP,
    SIZED,
    SPANS,
    USED,
    Measure,
    RolledUp,
    Total,
    asked_of,
    bucket_of,
    hour_number,
    packed,
    rollups_with,
    unpack,
)
from wfdash.queries.statistics.figures import MOST_FAILED, error_groups, failed_runs
from wfdash.queries.step_states import RESUMING, STOPPING
from wfdash.queries.unreadable import data_of

# Metrics from events: every event is counted once, whichever process counts and however often it is interrupted.

log = logging.getLogger(__name__)

EVENTS_AT_ONCE = 500
"""Events read at once. Their sums are a few hundred rows at most: runs wait some milliseconds for those."""
HOURS = timedelta(days=3)
"""How long single hours are kept; after that they are merged into days."""
LOOK_BACK = timedelta(days=30)
"""How far back hours are looked for that were not merged: what is older stays as it is until it is deleted."""
KEPT_METRICS = timedelta(days=400)
ROWS_REMOVED_AT_ONCE = 5_000
"""Rows deleted in one transaction."""

METRICS_TABLE = Tally._meta.db_table
COLUMNS = "measure, hour, workflow, step, label, bucket, count, total"
ADD = (
    f"INSERT INTO {METRICS_TABLE} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
    f" ON CONFLICT (measure, hour, workflow, step, label, bucket)"
    f" DO UPDATE SET count = {METRICS_TABLE}.count + excluded.count, total = {METRICS_TABLE}.total + excluded.total"
)


def count_events(high_water_mark: HighWaterMark, limit: int = EVENTS_AT_ONCE, using: str | None = None) -> int:
    """Count the next events. Returns how many ids that were, 0 if there is none or another process was faster."""
    mark = _mark(using)
    last = min(high_water_mark.current(), mark + limit)
    if last <= mark:
        return 0
    return last - mark if keep(_measured(mark, last, using), mark, last, using) else 0


def _measured(mark: int, last: int, using: str | None) -> Mapping[MetricKey, MetricSums]:
    """Return the metrics of these events. An event that cannot be measured is left out, or counting would stop at
    it.
    """
    try:
        return measure_events(mark, last, using)
    except Exception as error:
        if is_outage(error):
            raise
        if last - mark == 1:
            log.exception("Event %d could not be counted: it is left out of the figures", last)
            return {}
    middle, sums = (mark + last) // 2, dict[MetricKey, MetricSums]()
    for part in (_measured(mark, middle, using), _measured(middle, last, using)):
        for key, one in part.items():
            before = sums.get(key, MetricSums(0, 0))
            sums[key] = MetricSums(before.count + one.count, before.total + one.total)
    return sums


def keep(sums: Mapping[MetricKey, MetricSums], mark: int, last: int, using: str | None = None) -> bool:
    """Add these sums if the events after ``mark`` are not counted yet, and move the mark to ``last``. Returns the mark
    moved.
    """
    with write(using):
        moved = TallyMark.objects.using(using).filter(pk=STATISTICS, event=mark).update(event=last, at=timezone.now())
        if moved == 1:
            _add_rows(sums, using)
            rows = ((*key[:4], key.bucket, row.count, row.total) for key, row in sums.items() if key.hour != ALL_TIME)
            follow(rows, mark, last, timezone.now(), using)
        return moved == 1


def tidy(now: datetime, using: str | None = None) -> int:
    """Merge the hours of past days into one row, and delete old rows. Returns how many rows that saved."""
    saved = forget_rollups(now, using)
    old = Tally.objects.using(using).filter(hour__gt=ALL_TIME, hour__lt=now - KEPT_METRICS)
    with write(using):
        saved += (
            Tally.objects.using(using)
            .filter(pk__in=list(old.values_list("pk", flat=True)[:ROWS_REMOVED_AT_ONCE]))
            .delete()[0]
        )
    until = (now - HOURS).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = Tally.objects.using(using).filter(hour__gte=until - LOOK_BACK, hour__lt=until)
    apart = rows.annotate(clock=ExtractHour("hour", tzinfo=UTC), day=TruncDate("hour", tzinfo=UTC)).filter(clock__gt=0)
    parts = apart.values_list("day", "measure").distinct().order_by("day", "measure")
    return saved + sum(_merge_day(datetime.combine(day, time(), UTC), measure, using) for day, measure in parts)


def _merge_day(day: datetime, measure: str, using: str | None) -> int:
    """Merge a day's hours of one measure, in one transaction. Returns how many rows that saved."""
    with write(using):
        # A counter may still add to this hour; the row lock serialises the two.
        TallyMark.objects.using(using).select_for_update().get(pk=STATISTICS)
        interrupt(day, using)
        hours = Tally.objects.using(using).filter(measure=measure, hour__gt=day, hour__lt=day + timedelta(days=1))
        groups = hours.values_list("workflow", "step", "label", "bucket").order_by()
        found = list(groups.annotate(Sum("count"), Sum("total"), Count("pk")))
        hours.delete()
        sums = {MetricKey(measure, day, *names): MetricSums(count, total) for *names, count, total, _ in found}
        _add_rows(sums, using)
        before: int = sum(row[-1] for row in found)
        return before - len(sums)


def _mark(using: str | None) -> int:
    found: int | None = TallyMark.objects.using(using).filter(pk=STATISTICS).values_list("event", flat=True).first()
    if found is not None:
        return found
    with write(using):
        mark: int = TallyMark.objects.using(using).get_or_create(pk=STATISTICS)[0].event
        return mark


def _add_rows(sums: Mapping[MetricKey, MetricSums], using: str | None) -> None:
    """Add rows, in one fixed order, so that two counters do not deadlock."""
    connection = connections[using or alias()]
    adapt = Tally._meta.get_field("hour").get_db_prep_value
    rows = [
        (key.measure, adapt(key.hour, connection), *key[2:], row.count, row.total)
        for key, row in sorted(sums.items(), key=lambda item: item[0])
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(ADD, rows)


# Roll-ups: what the tallies of 1, 6, 24 hours and more add up to, per workflow, so that a month is a few rows.

KEPT_ROLLUPS = timedelta(days=40)
"""More than the longest range of the statistics."""
SHORT_KEPT = timedelta(days=5)
"""Of less than a day: more than the tallies keep single hours."""
ROWS_CLEARED_AT_ONCE = 2_000
"""Rows deleted in one transaction."""

ROLLUPS_TABLE = TallyRollup._meta.db_table
PUT = (
    f"INSERT INTO {ROLLUPS_TABLE} (span, hour, workflow, data) VALUES (%s, %s, %s, %s)"  # noqa: S608
    f" ON CONFLICT (span, hour, workflow) DO UPDATE SET data = excluded.data"
)
Row = tuple[str, datetime, str, str, int, int, float]
"""Measure, hour, workflow, step, bucket, count, seconds."""
Key = tuple[int, int, str]
"""Span, first hour, workflow."""


def follow(rows: Iterable[Row], mark: int, last: int, now: datetime, using: str | None = None) -> None:
    """Add the sums of the events after ``mark`` up to ``last``, if everything before is in the roll-ups.

    In the transaction that has moved the mark of the tallies.
    """
    marks = TallyMark.objects.using(using).filter(pk=ROLLUPS, event=mark)
    since = marks.values_list("at", flat=True).first()
    if marks.update(event=last) and since is not None:
        _add((row for row in rows if row[1] >= since), now, using)


def interrupt(day: datetime, using: str | None = None) -> None:
    """Note that a day's tallies become one hour: roll-ups that have a part of that day are made again.

    In the transaction that merges them.
    """
    within = Q(at__gt=day, at__lt=day + timedelta(days=1))
    TallyMark.objects.using(using).filter(within, pk=ROLLUPS).update(at=None)


def make_next(now: datetime, using: str | None = None) -> bool:
    """Add the latest hour of tallies that is not in the roll-ups yet. Returns whether there may be more to do."""
    marks = dict(TallyMark.objects.using(using).filter(pk__in=(STATISTICS, ROLLUPS)).values_list("pk", "event"))
    made = TallyMark.objects.using(using).filter(pk=ROLLUPS, at__lte=now - KEPT_ROLLUPS).exists()
    if STATISTICS not in marks or (made and marks[STATISTICS] == marks[ROLLUPS]):
        return False
    with write(using):
        # Counters wait for this row before they add to tallies and roll-ups.
        counted = TallyMark.objects.using(using).select_for_update().get(pk=STATISTICS).event
        state, _ = TallyMark.objects.using(using).get_or_create(pk=ROLLUPS)
        if state.event != counted:
            state.event, state.at = counted, None
        state.at = _clear(using) if state.at is None else _make_hour(state.at, now, using)
        state.save(using=using)
    return True


def forget_rollups(now: datetime, using: str | None = None) -> int:
    """Delete roll-ups that no range needs. Returns how many."""
    removed = 0
    for span in SPANS:
        rows = TallyRollup.objects.using(using).filter(span=span, hour__lt=_first_kept(span, now))
        while some := list(rows.values_list("pk", flat=True)[:ROWS_CLEARED_AT_ONCE]):
            with write(using):
                removed += TallyRollup.objects.using(using).filter(pk__in=some).delete()[0]
    return removed


def _first_kept(span: int, now: datetime) -> int:
    """Return the first hour of the oldest roll-up of a span that is kept."""
    return hour_number(now - (KEPT_ROLLUPS if span >= DAY_SPAN else SHORT_KEPT))


def _clear(using: str | None) -> datetime | None:
    """Delete some roll-ups. Returns from when on they have everything, which is when the last tally's hour is over;
    None while there are more.
    """
    some = list(TallyRollup.objects.using(using).values_list("pk", flat=True)[:ROWS_CLEARED_AT_ONCE])
    if some:
        TallyRollup.objects.using(using).filter(pk__in=some).delete()
        return None
    latest = Tally.objects.using(using).order_by("-hour").values_list("hour", flat=True).first() or ALL_TIME
    return latest + timedelta(hours=1)


def _make_hour(since: datetime, now: datetime, using: str | None) -> datetime:
    """Add the latest tallies before ``since``. Returns their hour, or a time before all that is kept."""
    least = now - KEPT_ROLLUPS
    rows = Tally.objects.using(using).filter(hour__lt=since, hour__gte=least)
    hour = rows.order_by("-hour").values_list("hour", flat=True).first()
    if hour is None:
        return min(since, least)
    columns = ("measure", "hour", "workflow", "step", "bucket", "count", "total")
    _add(rows.filter(measure__in=ROLLED_UP, hour=hour).values_list(*columns), now, using)
    return hour


def _add(rows: Iterable[Row], now: datetime, using: str | None) -> None:
    """Add rows of tallies to the roll-ups that have their hours."""
    by_hour: defaultdict[tuple[int, str], RolledUp] = defaultdict(dict)
    for measure, at, workflow, step, bucket, count, seconds in rows:
        if measure in ROLLED_UP:
            hour = hour_number(at)
            for key, name in (((hour, workflow), step), ((hour, ""), "")):
                by_hour[key].setdefault((measure, name), Total()).add(bucket, count, seconds)
    kept = {span: _first_kept(span, now) for span in SPANS}
    sums: defaultdict[Key, list[RolledUp]] = defaultdict(list)
    for (hour, workflow), rolled in by_hour.items():
        for span, first in rollups_with(hour):
            if first >= kept[span]:
                sums[span, first, workflow].append(rolled)
    if sums:
        _put(sums, using)


def _put(sums: Mapping[Key, Iterable[RolledUp]], using: str | None) -> None:
    """Add sums to rows, in one fixed order."""
    rows = TallyRollup.objects.using(using).filter(
        span__in={span for span, _, _ in sums},
        hour__in={hour for _, hour, _ in sums},
        workflow__in={workflow for _, _, workflow in sums},
    )
    found = rows.values_list("span", "hour", "workflow", "data")
    stored = {(span, hour, workflow): data for span, hour, workflow, data in found}
    with connections[using or alias()].cursor() as cursor:
        cursor.executemany(PUT, [(*key, _joined(stored.get(key, "{}"), parts)) for key, parts in sorted(sums.items())])


def _joined(stored: str, parts: Iterable[RolledUp]) -> str:
    rolled: RolledUp = {}
    unpack(stored, rolled)
    for part in parts:
        for key, total in part.items():
            rolled.setdefault(key, Total()).join(total)
    return packed(rolled)


# What events count for in metrics. Read-only; a constant number of queries, however many events.

READ = (EventKind.RUN_FAILED, EventKind.USAGE)
"""Kinds of events of which more is counted than their time."""
MAX_KEY = 200
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


class MeasuredEvent(NamedTuple):
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
    times: int = 1


class AnsweredRequest(NamedTuple):
    """A request that was answered: who it was addressed to, since when, and when it was decided (None: by no
    person).
    """

    step: str
    kind: str
    by: list[str]
    opened: datetime
    decided: datetime | None


@frozen
class EventContext:
    """What events do not contain themselves."""

    runs: dict[str, tuple[str, datetime]]
    """Run -> workflow, created."""
    requests: dict[str, AnsweredRequest] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    idle: dict[str, float] = field(default_factory=dict)
    """Run -> the seconds in which it had failed, or was paused or held, until it was resumed."""
    data: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    """Run and number of an event -> what it says, of the kinds in ``READ``."""


def measure_events(after: int, last: int, using: str | None = None) -> dict[MetricKey, MetricSums]:
    """Return the metrics of the events with these ids: each both in its hour and under ``ALL_TIME``."""
    events = _counted_events(after, last, using)
    context = _look_up(events, using)
    sums: dict[MetricKey, MetricSums] = {}
    for event in events:
        if event.run not in context.runs:
            continue
        workflow, hour = context.runs[event.run][0], event.at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        for found in MEASURED[event.kind](event, context):
            bucket = bucket_of(found.seconds) if found.measure in SIZED else 0
            for at in (hour, ALL_TIME):
                key = MetricKey(found.measure.value, at, workflow, found.step[:MAX_KEY], found.label[:MAX_KEY], bucket)
                row = sums.setdefault(key, MetricSums())
                row.count += found.times
                row.total += found.seconds
    return sums


def _counted_events(after: int, last: int, using: str | None) -> list[MeasuredEvent]:
    rows = Event.objects.using(using).filter(pk__gt=after, pk__lte=last, kind__in=MEASURED)
    # Only the fields that are counted: an event may carry a step's whole output.
    rows = rows.annotate(ms=KT("data__ms"), request=KT("data__request")).order_by("pk")
    return [
        MeasuredEvent(run, seq, kind, step or "", at, ms, request)
        for run, seq, kind, step, at, ms, request in rows.values_list(
            "run_id", "seq", "kind", "step", "at", "ms", "request"
        )
    ]


def _look_up(events: list[MeasuredEvent], using: str | None) -> EventContext:
    runs = Run.objects.using(using).filter(pk__in={event.run for event in events})
    asked = {event.request for event in events if event.kind == EventKind.REQUEST_ANSWERED and event.request}
    groups = Group.objects.using(using).values_list("name", flat=True) if asked else ()
    return EventContext(
        runs={pk: (workflow, created) for pk, workflow, created in runs.values_list("pk", "workflow", "created")},
        requests=_requests(asked, using) if asked else {},
        groups=frozenset(groups),
        idle=_idle({event.run for event in events if event.kind == EventKind.RUN_COMPLETED}, using),
        data=_data({(event.run, event.seq) for event in events if event.kind in READ}, using),
    )


def _idle(runs: set[str], using: str | None) -> dict[str, float]:
    idle, since = dict.fromkeys(runs, 0.0), dict[str, datetime]()
    moves = Event.objects.using(using).filter(run__in=runs, kind__in=STOPPING | RESUMING).order_by("run", "seq")
    for run, kind, at in moves.values_list("run_id", "kind", "at") if runs else ():
        if kind in STOPPING:
            since.setdefault(run, at)
        elif run in since:
            idle[run] += _seconds_between(since.pop(run), at)
    return idle


def _requests(ids: Iterable[str], using: str | None) -> dict[str, AnsweredRequest]:
    rows = HumanRequest.objects.using(using).filter(pk__in=ids)
    found = rows.values_list("pk", "step", "kind", "by", "created", "answer__at", "answer__by_id")
    found = found.filter(answer__rule__isnull=True)  # Neither a person nor a deadline.
    return {
        pk: AnsweredRequest(step, kind, by, at, decided if who else None)
        for pk, step, kind, by, at, decided, who in found
    }


def _data(wanted: set[tuple[str, int]], using: str | None) -> dict[tuple[str, int], dict[str, Any]]:
    """Return what is counted of events; it is readable even where they are encrypted."""
    if not wanted:
        return {}
    runs, numbers = map(set, zip(*wanted, strict=True))
    rows = Event.objects.using(using).filter(run__in=runs, kind__in=READ, seq__range=(min(numbers), max(numbers)))
    found = (row for row in rows.values_list("run_id", "seq", "data") if row[:2] in wanted)
    return {(run, seq): data_of(Event(run_id=run, seq=seq, data=data)) for run, seq, data in found}


def _seconds_between(begin: datetime, end: datetime) -> float:
    return max((end - begin).total_seconds(), 0.0)


def _began(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
    yield Measurement(Measure.STARTED)
    yield Measurement(Measure.QUEUE, seconds=_seconds_between(context.runs[event.run][1], event.at))


def _completed(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
    yield Measurement(Measure.COMPLETED)
    whole = _seconds_between(context.runs[event.run][1], event.at)
    yield Measurement(Measure.RUN, seconds=max(whole - context.idle[event.run], 0.0))


def _failed(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
    error = context.data.get((event.run, event.seq), {}).get("error")
    yield Measurement(Measure.FAILED, label=str(error.get("type", "")) if isinstance(error, dict) else "")


def _used(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
    data = context.data.get((event.run, event.seq), {})
    for measure, count in zip(USED, (1, *used_in(data)), strict=True):
        if count:
            yield Measurement(measure, label=str(data.get("model", "")), times=count)


def _finished(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
    try:
        seconds = float(event.ms or "") / 1000
        bucket_of(seconds)
    except ValueError:
        return
    yield Measurement(Measure.STEP, step=event.step, seconds=max(seconds, 0.0))


def _answered(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
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
) -> Callable[[MeasuredEvent, EventContext], Iterator[Measurement]]:
    def counted(event: MeasuredEvent, context: EventContext) -> Iterator[Measurement]:
        yield Measurement(measure, step=event.step if by_step else "", label=label)

    return counted


MEASURED: dict[str, Callable[[MeasuredEvent, EventContext], Iterator[Measurement]]] = {
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
    EventKind.USAGE: _used,
}
"""Kinds of events that are counted, and how."""


# Stores days of decisions that are added up, and forgets old ones.

KEPT_DECISIONS = timedelta(days=40)
"""More than the longest range of the statistics."""


def keep_day(
    since: datetime, until: datetime, data: Mapping[str, str], *, count: int, reversed_by_now: int, groups: str
) -> None:
    """Replace what is stored of a day: workflow -> its decisions, packed."""
    facts = {"since": since, "until": until, "count": count, "reversed": reversed_by_now, "groups": groups}
    rows = [DecisionRollup(workflow=workflow, data=text, **facts) for workflow, text in sorted(data.items())]
    with write():
        DecisionRollup.objects.filter(since=since).delete()
        DecisionRollup.objects.bulk_create(rows, batch_size=200)


def forget_decisions(now: datetime) -> int:
    """Delete the days that no range needs. Returns how many rows that were."""
    with write():
        return DecisionRollup.objects.filter(since__lt=now - KEPT_DECISIONS).delete()[0]


# What operators do about an error: someone looks after it, or it is not shown for a while.

WEEK = timedelta(days=7)
MUTES = {"day": timedelta(days=1), "week": WEEK}


def triage_error(
    viewer: Viewer, workflow: str, error: str, *, assignee: str | None = None, mute: str | None = None
) -> None:
    """Assign an error of a workflow to someone who may operate it, empty: to no one; mute it or, empty, no longer.

    ``mute``: until it happens again after a ``day`` or a ``week``, or in another ``version``. ``Invalid``;
    ``NotFound``.
    """
    if not viewer.may("operate", workflow):
        if viewer.may("see", workflow):
            raise NotAllowed("Only operators can assign and mute errors. Ask an operator of the workflow")
        raise NotFound(f"No workflow named {workflow!r}")
    people = people_who("operate", workflow, names=[assignee], programs=False) if assignee else []
    if assignee and not people:
        raise Invalid.at("assignee", f"{assignee!r} does not operate this workflow. Choose someone who does")
    now = timezone.now()
    with write():
        row = _error_of(viewer, workflow, error, now)
        if mute == "version" and not row.last_version:
            # No other version would ever end it.
            raise Invalid.at("mute", "Its version is not known. Mute it for a day or a week")
        if mute is not None:
            row.muted_at, row.muted_until = now if mute else None, now + MUTES[mute] if mute in MUTES else None
            row.muted_version = row.last_version if mute == "version" else ""
        if assignee is not None:
            row.assignee = people[0].user if people else None
        row.save(update_fields=["assignee", "muted_at", "muted_until", "muted_version"])
        if assignee is not None:
            facts = {"error": error, "assignee": assignee}
            audit.record(viewer, "assign error", workflow=workflow, right="operate", facts=facts)
        if mute is not None:
            verb = "mute error" if mute else "unmute error"
            audit.record(viewer, verb, workflow=workflow, right="operate", facts={"error": error, "until": mute})


def _error_of(viewer: Viewer, workflow: str, error: str, now: datetime) -> KnownError:
    """Return what is known of an error, locked; one from before that was kept, if runs failed so in the last week."""
    found = KnownError.objects.select_for_update(of=("self",)).filter(workflow=workflow, error=error).first()
    if found:
        return found
    lately = error_groups(viewer, failed_runs(Q(workflow=workflow), now - WEEK), MOST_FAILED, examples=False)
    for group in lately:
        if group.error == error:
            facts = {"last_at": group.last}
            return KnownError.objects.get_or_create(workflow=workflow, error=error, defaults=facts)[0]
    raise NotFound("No run of this workflow failed with this error in the last week")
