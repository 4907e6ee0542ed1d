"""When a cron expression fires: five fields, in the local time of a time zone. Pure.

A local time that the clock skips fires right after the gap, one that occurs twice fires once, the first time. Where the
hour is ``*``, the expression means intervals: it fires evenly through both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from checkpoints.records import frozen

NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31 or L, the last"),
    ("month", "1-12 or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT, MON#2 for the second Monday, 5L for the last Friday"),
)
MAX_EXPRESSION_CHARACTERS = 200
LATE = timedelta(minutes=1)
ALL = 100
KEPT_EXPRESSIONS = 1000
"""Expressions of which it is kept that they are valid, and what they mean: lists read the same ones again and again."""
NEVER = "Never runs: no such date in the next 50 years"
_NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)
_GAP = timedelta(hours=26)
"""Longer than any clock change: a day was skipped where the date line was."""
_LONGEST_PAUSE = timedelta(days=50 * 366)
"""Longer than any date takes to come again."""


class BadCron(ValueError):
    """The expression or the zone is not valid; the message says where, and what is allowed. ``field``: cron or zone."""

    def __init__(self, message: str, field: str = "cron") -> None:
        super().__init__(message)
        self.field = field


@frozen
class Cron:
    """An expression in a zone. Created by ``parse``."""

    text: str
    zone: ZoneInfo

    @property
    def words(self) -> str:
        """Return the expression in English: ``At 09:00 on Monday through Friday``."""
        return _explained(self._fields)

    def after(self, moment: datetime, count: int = 1) -> list[datetime]:
        """Return the next times after this one, in order, as UTC; fewer where the schedule ends."""
        return list(islice(self._forward(moment), count))

    def until(self, moment: datetime, count: int = 1) -> list[datetime]:
        """Return the last times up to and including this one, in order, as UTC."""
        return self._recent(moment, count) if self._even else list(islice(self._backward(moment), count))[::-1]

    def skipped(self, moment: datetime) -> datetime | None:
        """Return the local time that does not exist and fires at this moment instead; None for any other moment."""
        local, before = (
            at.astimezone(self.zone).replace(tzinfo=None) for at in (moment, moment - timedelta(seconds=1))
        )
        if self._even or local - before <= timedelta(seconds=1):
            return None
        found: datetime = next(CronSim(self._fields, before))
        return found if found < local else None

    @property
    def _fields(self) -> str:
        return _spelled(self.text)

    @property
    def _even(self) -> bool:
        return self._fields.split()[1] == "*"

    def _forward(self, moment: datetime) -> Iterator[datetime]:
        local = moment.astimezone(self.zone)
        last = moment
        for found in CronSim(self._fields, local if self._even else local.replace(tzinfo=None)):
            at = self._instant(found)
            if at > last:
                last = at
                yield at

    def _recent(self, moment: datetime, count: int) -> list[datetime]:
        """Return the last times of even intervals. Looked for backwards, a day that ends twice would end once."""
        back, found = timedelta(hours=2), deque[datetime]()
        while len(found) < count and back < _LONGEST_PAUSE:
            found = deque(takewhile(lambda at: at <= moment, self._forward(moment - back)), count)
            back *= 4
        return list(found)

    def _backward(self, moment: datetime) -> Iterator[datetime]:
        local = (moment + timedelta(seconds=1)).astimezone(self.zone)
        last = moment + timedelta(microseconds=1)
        for found in CronSim(self._fields, local.replace(tzinfo=None, fold=0) + _GAP, reverse=True):
            at = self._instant(found)
            if at < last:
                last = at
                yield at

    def _instant(self, found: datetime) -> datetime:
        """Return the instant at which the zone's clock first shows this, or the one after the gap it falls into."""
        if found.tzinfo is not None:
            return found.astimezone(UTC)
        at = found.replace(tzinfo=self.zone).astimezone(UTC)
        if at.astimezone(self.zone).replace(tzinfo=None) == found:
            return at
        return _end_of_gap(found, self.zone)


@frozen
class DueTime:
    """What to do about a due time. ``fires``: the time to start a run for; None: none of them."""

    fires: datetime | None
    following: datetime | None
    """The next time; it may have passed too. None: there is none."""


def turn(cron: Cron, due: datetime, now: datetime, missed: str) -> DueTime:
    """Return what to do about a time that was ``due``, now or long ago. ``missed``: skip, once or all.

    A time counts as missed once it is older than ``LATE``. Of ``all``, at most the last ``ALL`` are caught up.
    """
    passed = cron.until(now, ALL if missed == "all" else 1) or [due]
    fires = max(due, passed[0])
    if missed == "all":
        return DueTime(fires=fires, following=_first(cron.after(fires)))
    return DueTime(fires=None if missed == "skip" and now - fires > LATE else fires, following=_first(cron.after(now)))


def _first(moments: list[datetime]) -> datetime | None:
    return moments[0] if moments else None


def _end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant at which the clock jumps over this time. In a gap the two folds are on both sides of it."""
    one, other = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    low, high = min(one, other), max(one, other)
    shift = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == shift:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def parse(text: str, zone: str = "UTC") -> Cron:
    """Return an expression that will fire at least once more. ``BadCron`` says where it is wrong."""
    if zone not in known_zones():
        raise BadCron(f"Unknown time zone {zone[:64]!r}. Use a name such as Europe/Berlin, or UTC", "zone")
    fields = _spelled(text)
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        raise BadCron(f"At most {MAX_EXPRESSION_CHARACTERS} characters")
    _check_fields(text, fields)
    cron = Cron(text=text.strip(), zone=ZoneInfo(zone))
    try:
        CronSim(fields, _NOON)
    except CronSimError:
        raise BadCron(NEVER) from None
    if not cron.after(datetime.now(UTC)):
        raise BadCron(NEVER)
    return cron


@lru_cache(maxsize=1)
def zones() -> tuple[str, ...]:
    """Return the names of all time zones, sorted; read from disk once."""
    return tuple(sorted(available_timezones()))


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    """Return the same names for look-ups: Python lists the files of all zones each time it is asked."""
    return frozenset(zones())


@lru_cache(maxsize=KEPT_EXPRESSIONS)
def _explained(fields: str) -> str:
    return str(CronSim(fields, _NOON).explain())


def _spelled(text: str) -> str:
    """Return the five fields of a name like ``@daily``, or the text itself."""
    return NAMES.get(text.strip().lower(), text)


@lru_cache(maxsize=KEPT_EXPRESSIONS)
def _check_fields(text: str, fields: str) -> None:
    parts = fields.split()
    if text.strip().startswith("@") and len(parts) == 1:
        raise BadCron(f"Unknown shortcut {text.strip()[:30]!r}. Use one of {', '.join(NAMES)}")
    if len(parts) != len(FIELDS):
        names = ", ".join(name for name, _ in FIELDS)
        raise BadCron(f"A cron expression has five parts separated by spaces ({names}); got {len(parts)}")
    at = 0
    for n, part in enumerate(parts):
        at = fields.index(part, at)
        _check_field(n, part, at)
        at += len(part)


def _check_field(n: int, part: str, at: int) -> None:
    """Raise for the first invalid item of a field; ``at``: where the field starts in the text."""
    name, takes = FIELDS[n]
    for item in part.split(","):
        others = ["*"] * len(FIELDS)
        others[n] = item
        # With the last weekday any day of a month is possible, so that only the item itself can be wrong.
        try:
            CronSim(" ".join(others), _NOON) if item else _raise_error()
        except CronSimError:
            where = f"character {at + 1}" if item else f"character {max(at, 1)}"
            shown = f"“{item[:30]}”" if item else "nothing between two commas"
            raise BadCron(
                f"The {name}, at {where}, is {shown}: use {takes}; *, a-b, */n and lists are allowed"
            ) from None
        at += len(item) + 1


def _raise_error() -> None:
    raise CronSimError
