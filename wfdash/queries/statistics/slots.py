"""The hours or days of a chart, in the zone of its reader. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import pairwise

from wfdash.records.statistics import TimeSlot

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURS_A_DAY = 24


def slots_of(now: datetime, days: int, zone: tzinfo = UTC) -> tuple[TimeSlot, ...]:
    """Return the last 24 hours, or the last days (more than 1), oldest first; the last one is not over yet.

    They join without a gap: where the clock is set, a day has 23 or 25 hours.
    """
    edges = _hours(now, zone) if days <= 1 else _midnights(now, days, zone)
    return tuple(TimeSlot.trusted(since=since, until=until) for since, until in pairwise(edges))


def slot_finder(slots: Sequence[TimeSlot]) -> Callable[[datetime], int | None]:
    """Return what finds the place of the slot that a time lies in, None for none of them."""
    starts, end = [slot.since.timestamp() for slot in slots], slots[-1].until.timestamp()

    def find(at: datetime) -> int | None:
        seconds = at.timestamp()
        return bisect_right(starts, seconds) - 1 if starts[0] <= seconds < end else None

    return find


def moment(stored: str | datetime) -> datetime:
    """Return a time that was read as the database has it: SQLite in UTC without saying so."""
    at = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _hours(now: datetime, zone: tzinfo) -> list[datetime]:
    local = now.astimezone(zone)
    last = now.astimezone(UTC) - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    return [(last + HOUR * (n + 1)).astimezone(zone) for n in range(-HOURS_A_DAY, 1)]


def _midnights(now: datetime, days: int, zone: tzinfo) -> list[datetime]:
    today = now.astimezone(zone).date()
    # By way of UTC: where midnight is skipped, the day begins when the clock has been set.
    midnights = (datetime.combine(today + DAY * (n + 1), time(), zone) for n in range(-days, 1))
    return [at.astimezone(UTC).astimezone(zone) for at in midnights]
