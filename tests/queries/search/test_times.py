"""Times in filters: days, hours and minutes at an offset, ranges of them, and the shortest text of a range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.queries.runs.filter_keys import FILTER
from wfdash.queries.search import is_time, range_text, times_of

NOW = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("value", "since", "until"),
    [
        ("2026-01-31", "2026-01-31T00:00+00:00", "2026-02-01T00:00+00:00"),
        ("2026-01-31+01:00", "2026-01-30T23:00+00:00", "2026-01-31T23:00+00:00"),
        ("2026-01-31T14", "2026-01-31T14:00+00:00", "2026-01-31T15:00+00:00"),
        ("2026-01-31t14:05z", "2026-01-31T14:05+00:00", "2026-01-31T14:06+00:00"),
        ("2026-01-31..2026-02-01", "2026-01-31T00:00+00:00", "2026-02-02T00:00+00:00"),
        ("2026-01-31T14..2026-01-31T14:59", "2026-01-31T14:00+00:00", "2026-01-31T15:00+00:00"),
        ("2026-10-25+02:00..2026-10-25T23:59+01:00", "2026-10-24T22:00+00:00", "2026-10-25T23:00+00:00"),
    ],
)
def test_a_value_means_the_whole_of_what_it_names(value, since, until):
    assert is_time(value, "")
    assert times_of(value, "", NOW) == (at(since), at(until))


def test_a_range_may_be_open_at_one_end():
    assert times_of("2026-01-31..", "", NOW) == (at("2026-01-31T00:00+00:00"), None)
    assert times_of("..2026-01-31", "", NOW) == (None, at("2026-02-01T00:00+00:00"))


@pytest.mark.parametrize(
    "value",
    ["..", "2026-02-30", "2026-01-31T24", "2026-01-31T14:60", "2026-02-01..2026-01-31", "2026-01-31..x", "4h..2h",
     "2026-01-31+99:99", "2026-01-31T1", "２０２６-01-31", "0001-01-01+14:00", "2026-01-31...2026-02-01"],
)  # fmt: skip
def test_what_names_no_time_is_refused_with_its_remedy(value):
    assert not is_time(value, "")
    (flaw,) = FILTER.read(f"started:{value}").flaws
    assert "2026-01-31" in flaw.message


def test_a_range_is_not_compared():
    assert not is_time("2026-01-31..2026-02-01", "<")


def test_the_last_day_there_is_has_no_end():
    assert times_of("9999-12-31", "", NOW) == (at("9999-12-31T00:00+00:00"), None)


@pytest.mark.parametrize(
    ("zone", "since", "until", "text"),
    [
        ("UTC", "2026-11-21T00:00", "2026-11-22T00:00", "2026-11-21"),
        ("UTC", "2026-11-16T00:00", "2026-11-23T00:00", "2026-11-16..2026-11-22"),
        ("Europe/Berlin", "2026-11-21T00:00", "2026-11-22T00:00", "2026-11-21+01:00"),
        ("Europe/Berlin", "2026-11-21T14:00", "2026-11-21T15:00", "2026-11-21T14+01:00"),
        ("Europe/Berlin", "2026-10-25T00:00", "2026-10-26T00:00", "2026-10-25+02:00..2026-10-25+01:00"),
        ("Asia/Kathmandu", "2026-11-21T14:15", "2026-11-21T15:15", "2026-11-21T14:15+05:45..2026-11-21T15:14+05:45"),
    ],
)
def test_a_range_is_said_as_shortly_as_possible(zone, since, until, text):
    there = ZoneInfo(zone)
    assert range_text(at(since).replace(tzinfo=there), at(until).replace(tzinfo=there)) == text


@given(
    zone=st.sampled_from(ZONES),
    since=st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2040, 1, 1)),
    length=st.integers(min_value=1, max_value=60 * 24 * 40),
)
def test_a_filter_reads_the_range_that_was_written(zone, since, length):
    start = since.replace(second=0, microsecond=0, tzinfo=UTC)
    end = start + timedelta(minutes=length)
    text = range_text(start.astimezone(ZoneInfo(zone)), end.astimezone(ZoneInfo(zone)))
    assert times_of(text, "", NOW) == (start, end)
    assert FILTER.read(f"status:failed finished:{text}").flaws == ()
