"""Times, durations and sizes in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wfdash.pages.ui import times

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=2), "now"),
        (timedelta(seconds=40), "40 s ago"),
        (timedelta(minutes=-3), "in 3 min"),
        (timedelta(hours=5, minutes=59), "5 h ago"),
        (timedelta(days=-2), "in 2 d"),
        (timedelta(days=40), "2026-10-12"),
        (timedelta(hours=-29), "in 1 d 5 h"),
        (timedelta(hours=-3, minutes=-54), "in 3 h 54 min"),
        (timedelta(days=-2, hours=-23, minutes=-59), "in 2 d 23 h"),
        (timedelta(days=-3, hours=-20), "2026-11-25 08:00"),
    ],
)
def test_moments_are_told_as_people_say_them(ago: timedelta, words: str) -> None:
    assert times.relative(NOW - ago, NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.0874, "87 ms"),
        (4.21, "4.2 s"),
        (59.7, "1 min"),
        (184, "3 min 4 s"),
        (3600, "1 h"),
        (176_400, "2 d 1 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, words: str) -> None:
    assert times.duration(seconds) == words
    assert times.duration(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (812, "812 B"), (1234, "1.2 kB"), (3_400_000, "3.4 MB"), (5e12, "5000 GB")]
)
def test_sizes_are_decimal(count: float, words: str) -> None:
    assert times.size(count) == words


def test_the_exact_moment_is_in_utc() -> None:
    assert times.exact(NOW) == "2026-11-21 12:00:00 UTC"
