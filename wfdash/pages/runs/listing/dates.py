"""When runs began, chosen instead of typed: presets and two times in the person's zone, written into the filter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from wfdash.errors import Invalid
from wfdash.pages.site.list_address import RunsAddress
from wfdash.queries.search.conditions import RANGE, duration_of, is_time, range_text, times_of
from wfdash.queries.search.qualifiers import Term, replaced, split

KEY = "started"
MINUTE = timedelta(minutes=1)
LOCAL = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, kw_only=True)
class DateChoice:
    """The menu of dates. ``since`` and ``until``: the times that the filter names, as a field has them, else empty."""

    label: str
    presets: tuple[tuple[str, str, bool], ...]
    any_time: str
    since: str
    until: str


def dates_of(place: RunsAddress, now: datetime) -> DateChoice:
    """Return what the menu offers for a filter, and what of it holds now."""
    parts = [part for part, said in split(place.q) if isinstance(said, Term) and said.key == KEY and not said.negated]
    presets = [(f"{KEY}:<1h", "Last hour"), (f"{KEY}:{_today(now)}", "Today")]
    presets += [(f"{KEY}:<{days}d", f"Last {days} days") for days in (7, 30)]
    here = next((label for part, label in presets if parts == [part]), "Custom" if parts else "Any time")
    since, until = _named(place.q, now) if here == "Custom" else (None, None)
    return DateChoice(
        label=here,
        presets=tuple((_changed(place, part), label, label == here) for part, label in presets),
        any_time=_changed(place, "") if parts else "",
        since=_as_field(since),
        until=_as_field(until),
    )


def with_dates(text: str, first: str, last: str) -> str:
    """Return a filter for what began from one time until before another, either of them empty for no end.

    The times are those of fields, in the person's zone. ``Invalid`` if one is none, or they are the wrong way round.
    """
    since, until = _read(first, "from"), _read(last, "to")
    if since and until and since >= until:
        raise Invalid([{"loc": ["to"], "msg": "The end must be after the start"}])
    if since and until:
        return replaced(text, KEY, f"{KEY}:{range_text(since, until)}")
    ends = _minute(since) + RANGE + _minute(until - MINUTE if until else None)
    return replaced(text, KEY, f"{KEY}:{ends}" if ends != RANGE else "")


def _changed(place: RunsAddress, part: str) -> str:
    return place.at(q=replaced(place.q, KEY, part), view="").url()


def _today(now: datetime) -> str:
    """Return today in the person's zone, as a filter says it."""
    zone, today = timezone.get_current_timezone(), timezone.localtime(now).date()
    start, end = (datetime.combine(day, time(), zone) for day in (today, today + timedelta(days=1)))
    return range_text(start, end) if start.utcoffset() else "today"


def _named(text: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the times that a filter names by one part; none where it names none, or lengths of time."""
    terms = [said for _, said in split(text) if isinstance(said, Term) and said.key == KEY and not said.negated]
    values = [(value, term.sign) for term in terms for value in term.values]
    if len(values) != 1 or duration_of(values[0][0]) is not None or not is_time(*values[0]):
        return None, None
    return times_of(*values[0], now)


def _as_field(at: datetime | None) -> str:
    return f"{timezone.localtime(at):{LOCAL}}" if at else ""


def _minute(at: datetime | None) -> str:
    """Return a minute as a filter says it: in UTC, because offsets of old times have seconds."""
    return f"{at.astimezone(UTC):{LOCAL}}" if at else ""


def _read(text: str, field: str) -> datetime | None:
    if not text:
        return None
    try:
        found = parse_datetime(text)
        if found is not None and timezone.is_naive(found):
            return timezone.make_aware(found.replace(second=0, microsecond=0)).astimezone(
                timezone.get_current_timezone()
            )
    except (ValueError, OverflowError):
        pass
    raise Invalid([{"loc": [field], "msg": "Enter a date and time"}])
