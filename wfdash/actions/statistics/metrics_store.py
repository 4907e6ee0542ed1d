"""Metrics from events: every event is counted once, whichever process counts and however often it is interrupted.

A counter reads and adds up outside of any transaction. Then one short transaction moves the mark from where it started
to read, which only one counter can do, and adds its sums: the second one's work is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta

from django.db import connections
from django.db.models import Count, Sum
from django.db.models.functions import ExtractHour, TruncDate
from django.utils import timezone

from checkpoints.database.alias import alias
from checkpoints.database.high_water_mark import STATISTICS, HighWaterMark
from checkpoints.database.storage import write
from checkpoints.models import Tally, TallyMark
from wfdash.actions.statistics import rollups
from wfdash.actions.statistics.event_metrics import MetricKey, MetricSums, measure_events
from wfdash.actions.sweep_backoff import is_outage
from wfdash.domain.histograms import ALL_TIME

log = logging.getLogger(__name__)

BATCH = 500
"""Events read at once. Their sums are a few hundred rows at most: runs wait some milliseconds for those."""
HOURS = timedelta(days=3)
"""How long single hours are kept; after that they are merged into days."""
LOOK_BACK = timedelta(days=30)
"""How far back hours are looked for that were not merged: what is older stays as it is until it is deleted."""
KEPT = timedelta(days=400)
FORGOTTEN = 5_000
"""Rows deleted in one transaction."""
MARK = STATISTICS

TABLE = Tally._meta.db_table
COLUMNS = "measure, hour, workflow, step, label, bucket, count, total"
ADD = (
    f"INSERT INTO {TABLE} ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
    f" ON CONFLICT (measure, hour, workflow, step, label, bucket)"
    f" DO UPDATE SET count = {TABLE}.count + excluded.count, total = {TABLE}.total + excluded.total"
)


def count_events(high_water_mark: HighWaterMark, limit: int = BATCH, using: str | None = None) -> int:
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
        moved = TallyMark.objects.using(using).filter(pk=MARK, event=mark).update(event=last, at=timezone.now())
        if moved == 1:
            _add_rows(sums, using)
            rows = ((*key[:4], key.bucket, row.count, row.total) for key, row in sums.items() if key.hour != ALL_TIME)
            rollups.follow(rows, mark, last, timezone.now(), using)
        return moved == 1


def tidy(now: datetime, using: str | None = None) -> int:
    """Merge the hours of past days into one row, and delete old rows. Returns how many rows that saved."""
    saved = rollups.forget(now, using)
    old = Tally.objects.using(using).filter(hour__gt=ALL_TIME, hour__lt=now - KEPT)
    with write(using):
        saved += (
            Tally.objects.using(using).filter(pk__in=list(old.values_list("pk", flat=True)[:FORGOTTEN])).delete()[0]
        )
    until = _day(now - HOURS)
    rows = Tally.objects.using(using).filter(hour__gte=until - LOOK_BACK, hour__lt=until)
    apart = rows.annotate(clock=ExtractHour("hour", tzinfo=UTC), day=TruncDate("hour", tzinfo=UTC)).filter(clock__gt=0)
    parts = apart.values_list("day", "measure").distinct().order_by("day", "measure")
    return saved + sum(_merge_day(datetime.combine(day, time(), UTC), measure, using) for day, measure in parts)


def _merge_day(day: datetime, measure: str, using: str | None) -> int:
    """Merge a day's hours of one measure, in one transaction. Returns how many rows that saved."""
    with write(using):
        # A counter may still add to this hour; the row lock serialises the two.
        TallyMark.objects.using(using).select_for_update().get(pk=MARK)
        rollups.interrupt(day, using)
        hours = Tally.objects.using(using).filter(measure=measure, hour__gt=day, hour__lt=day + timedelta(days=1))
        groups = hours.values_list("workflow", "step", "label", "bucket").order_by()
        found = list(groups.annotate(Sum("count"), Sum("total"), Count("pk")))
        hours.delete()
        sums = {MetricKey(measure, day, *names): MetricSums(count, total) for *names, count, total, _ in found}
        _add_rows(sums, using)
        before: int = sum(row[-1] for row in found)
        return before - len(sums)


def _day(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _mark(using: str | None) -> int:
    found: int | None = TallyMark.objects.using(using).filter(pk=MARK).values_list("event", flat=True).first()
    if found is not None:
        return found
    with write(using):
        mark: int = TallyMark.objects.using(using).get_or_create(pk=MARK)[0].event
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
