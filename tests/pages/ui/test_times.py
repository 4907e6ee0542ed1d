"""Times, durations and sizes in words."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils.translation import override
from hypothesis import given
from hypothesis import strategies as st

from tests.pages.ui.time_cases import AWAY, LENGTHS, NOW, SINCE
from wfdash.web.pages.ui import times


@pytest.mark.parametrize(("away", "words"), AWAY)
def test_moments_are_told_as_people_say_them(away: timedelta, words: str) -> None:
    assert times.relative(NOW + away, NOW) == words


@pytest.mark.parametrize(("away", "words"), SINCE)
def test_how_long_something_lasts_already_is_a_duration(away: timedelta, words: str) -> None:
    assert times.since(NOW + away, NOW) == words


@pytest.mark.parametrize(("seconds", "words"), LENGTHS)
def test_durations_are_rounded_to_two_units(seconds: float, words: str) -> None:
    assert times.duration(seconds) == words
    assert times.duration(timedelta(seconds=seconds)) == words


def test_numbers_counts_and_weekdays_are_written_in_the_active_language() -> None:
    assert (times.counted(1, "run"), times.counted(12_345, "match", "matches")) == ("1 run", "12,345 matches")
    assert [times.compact(count) for count in (0, 812, 12_396, 1_000_000, 3_456_000_000)] == [
        *("0", "812", "12.4k", "1M", "3.46B")
    ]
    assert (times.money("0.00421", "USD"), times.money(None, "USD")) == ("0.0042 USD", "unknown")
    assert (times.money("1234.5", "EUR", 3), times.money("0", "EUR")) == ("≥ 1,234.50 EUR", "0 EUR")
    with override("de"):
        assert (times.compact(12_396), times.money("0.4", "EUR")) == ("12,4k", "0,40 EUR")
        assert (times.number(12_345), times.duration(4.21), times.size(1_200)) == ("12.345", "4,2 s", "1,2 kB")
        assert times.weekday(NOW) == "Sa 2026-11-21"


@given(st.floats(0, 1e8))
def test_a_duration_is_never_off_by_more_than_half_of_its_smaller_unit(seconds: float) -> None:
    units = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 0.001}
    parts = times.duration(seconds).split()
    told = sum(float(amount) * units[unit] for amount, unit in zip(parts[::2], parts[1::2], strict=True))
    smaller = 3_600 if seconds >= 86_400 - 30 else 60 if seconds >= 3_599.5 else 1 if seconds >= 9.95 else 0.1
    assert abs(told - seconds) <= smaller / 2 + 0.501


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0874, "87 ms"),
        (0.874, "870 ms"),
        (0.999, "1 s"),
        (4.21, "4.2 s"),
        (59.7, "1 min"),
        (258, "4.3 min"),
        (2597, "43 min"),
        (2705, "45 min"),
        (5_400, "1.5 h"),
        (84_000, "23 h"),
        (86_000, "1 d"),
        (176_400, "2 d"),
        (86_400 * 123, "120 d"),
    ],
)
def test_statistics_have_two_digits(seconds: float, words: str) -> None:
    assert times.estimate(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "+0.000 s"),
        (2.3144, "+2.314 s"),
        (59.9996, "+1 min 0.000 s"),
        (242.314, "+4 min 2.314 s"),
        (14_045, "+3 h 54 min"),
        (-0.004, "-0.004 s"),
    ],
)
def test_the_distance_from_the_start_has_milliseconds_up_to_an_hour(seconds: float, words: str) -> None:
    assert times.elapsed(timedelta(seconds=seconds)) == words


def test_thousands_are_apart() -> None:
    assert [times.number(count) for count in (7, 1234, 1_000_000)] == ["7", "1,234", "1,000,000"]


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (812, "812 B"), (1234, "1.2 kB"), (3_400_000, "3.4 MB"), (5e12, "5,000 GB")]
)
def test_sizes_are_decimal(count: float, words: str) -> None:
    assert times.size(count) == words


def test_the_exact_moment_is_in_utc() -> None:
    assert times.exact(NOW) == "2026-11-21 12:00:00 UTC"


def test_a_date_is_that_of_the_zone() -> None:
    assert times.relative(NOW - timedelta(days=4, hours=2), NOW, ZoneInfo("Asia/Tokyo")) == "2026-11-17"
    assert times.relative(NOW + timedelta(days=4), NOW, ZoneInfo("Asia/Tokyo")) == "2026-11-25 21:00"
    assert times.in_zone(NOW, "Europe/Berlin") == "Sat 2026-11-21 13:00 CET"
    assert times.in_zone(NOW, "Nowhere/Town") == "Sat 2026-11-21 12:00 UTC"
