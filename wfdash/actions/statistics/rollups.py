"""Roll-ups: what the tallies of 1, 6, 24 hours and more add up to, per workflow, so that a month is a few rows.

Who counts events adds to them in the same transaction (``follow``). A mark says up to which event they have what the
tallies have. Older code counts without them: the mark then differs from that of the tallies, statistics are read from
the tallies, and the roll-ups are made again (``make_next``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import connections
from django.db.models import Q

from checkpoints.database.alias import alias
from checkpoints.database.high_water_mark import ROLLUPS, STATISTICS
from checkpoints.database.storage import write
from checkpoints.models import Tally, TallyMark, TallyRollup
from wfdash.domain.histograms import (
    ALL_TIME,
    DAY_SPAN,
    ROLLED_UP,
    SPANS,
    RolledUp,
    Total,
    hour_number,
    packed,
    rollups_with,
    unpack,
)

MARK = ROLLUPS
KEPT = timedelta(days=40)
"""More than the longest range of the statistics."""
SHORT_KEPT = timedelta(days=5)
"""Of less than a day: more than the tallies keep single hours."""
CLEARED = 2_000
"""Rows deleted in one transaction."""

TABLE = TallyRollup._meta.db_table
PUT = (
    f"INSERT INTO {TABLE} (span, hour, workflow, data) VALUES (%s, %s, %s, %s)"  # noqa: S608
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
    marks = TallyMark.objects.using(using).filter(pk=MARK, event=mark)
    since = marks.values_list("at", flat=True).first()
    if marks.update(event=last) and since is not None:
        _add((row for row in rows if row[1] >= since), now, using)


def interrupt(day: datetime, using: str | None = None) -> None:
    """Note that a day's tallies become one hour: roll-ups that have a part of that day are made again.

    In the transaction that merges them.
    """
    within = Q(at__gt=day, at__lt=day + timedelta(days=1))
    TallyMark.objects.using(using).filter(within, pk=MARK).update(at=None)


def make_next(now: datetime, using: str | None = None) -> bool:
    """Add the latest hour of tallies that is not in the roll-ups yet. Returns whether there may be more to do."""
    marks = dict(TallyMark.objects.using(using).filter(pk__in=(STATISTICS, MARK)).values_list("pk", "event"))
    made = TallyMark.objects.using(using).filter(pk=MARK, at__lte=now - KEPT).exists()
    if STATISTICS not in marks or (made and marks[STATISTICS] == marks[MARK]):
        return False
    with write(using):
        # Counters wait for this row before they add to tallies and roll-ups.
        counted = TallyMark.objects.using(using).select_for_update().get(pk=STATISTICS).event
        state, _ = TallyMark.objects.using(using).get_or_create(pk=MARK)
        if state.event != counted:
            state.event, state.at = counted, None
        state.at = _clear(using) if state.at is None else _make_hour(state.at, now, using)
        state.save(using=using)
    return True


def forget(now: datetime, using: str | None = None) -> int:
    """Delete roll-ups that no range needs. Returns how many."""
    removed = 0
    for span in SPANS:
        rows = TallyRollup.objects.using(using).filter(span=span, hour__lt=_first_kept(span, now))
        while some := list(rows.values_list("pk", flat=True)[:CLEARED]):
            with write(using):
                removed += TallyRollup.objects.using(using).filter(pk__in=some).delete()[0]
    return removed


def _first_kept(span: int, now: datetime) -> int:
    """Return the first hour of the oldest roll-up of a span that is kept."""
    return hour_number(now - (KEPT if span >= DAY_SPAN else SHORT_KEPT))


def _clear(using: str | None) -> datetime | None:
    """Delete some roll-ups. Returns from when on they have everything, which is when the last tally's hour is over;
    None while there are more.
    """
    some = list(TallyRollup.objects.using(using).values_list("pk", flat=True)[:CLEARED])
    if some:
        TallyRollup.objects.using(using).filter(pk__in=some).delete()
        return None
    latest = Tally.objects.using(using).order_by("-hour").values_list("hour", flat=True).first() or ALL_TIME
    return latest + timedelta(hours=1)


def _make_hour(since: datetime, now: datetime, using: str | None) -> datetime:
    """Add the latest tallies before ``since``. Returns their hour, or a time before all that is kept."""
    least = now - KEPT
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
