"""Cases that both formatters are asked, the server's in Python and the browser's in JavaScript."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AWAY: tuple[tuple[timedelta, str], ...] = (
    (timedelta(), "now"),
    (timedelta(seconds=-4), "now"),
    (timedelta(seconds=4.499), "now"),
    (timedelta(seconds=4.5), "in 5 s"),
    (timedelta(seconds=-4.501), "5 s ago"),
    (timedelta(seconds=-40), "40 s ago"),
    (timedelta(minutes=-8, seconds=-59), "8 min ago"),
    (timedelta(minutes=3), "in 3 min"),
    (timedelta(minutes=3, seconds=20), "in 3 min 20 s"),
    (timedelta(minutes=-59, seconds=-59.6), "1 h ago"),
    (timedelta(hours=-3, minutes=-54), "3 h 54 min ago"),
    (timedelta(hours=-5, minutes=-59, seconds=-59), "5 h 59 min ago"),
    (timedelta(hours=29), "in 1 d 5 h"),
    (timedelta(hours=3, minutes=54), "in 3 h 54 min"),
    (timedelta(days=2), "in 2 d"),
    (timedelta(days=2, minutes=59), "in 2 d"),
    (timedelta(days=2, hours=23, minutes=59), "in 2 d 23 h"),
    (timedelta(days=-2, hours=-23, minutes=-59), "2 d 23 h ago"),
    (timedelta(days=-3), "2026-11-18"),
    (timedelta(days=-40), "2026-10-12"),
    (timedelta(days=3, hours=20), "2026-11-25 08:00"),
)
"""How far a time is from now, and its text in UTC."""
SINCE: tuple[tuple[timedelta, str], ...] = (
    (timedelta(seconds=-4), "a moment"),
    (timedelta(seconds=20), "a moment"),
    (timedelta(seconds=-40), "40 s"),
    (timedelta(minutes=-8, seconds=-59), "8 min"),
    (timedelta(hours=-2, minutes=-12), "2 h 12 min"),
    (timedelta(days=-1, hours=-5), "1 d 5 h"),
    (timedelta(days=-45, hours=-3), "45 d"),
)
LENGTHS: tuple[tuple[float, str], ...] = (
    (0, "0 ms"),
    (-1, "0 ms"),
    (0.0874, "87 ms"),
    (0.9994, "999 ms"),
    (0.9996, "1.0 s"),
    (4.21, "4.2 s"),
    (4.25, "4.3 s"),
    (9.949, "9.9 s"),
    (9.96, "10 s"),
    (59.7, "1 min"),
    (184, "3 min 4 s"),
    (2597.4, "43 min 17 s"),
    (3599.6, "1 h"),
    (7199, "2 h"),
    (10_500, "2 h 55 min"),
    (86_399, "1 d"),
    (88_199, "1 d"),
    (176_400, "2 d 1 h"),
)
"""Seconds and their text."""
MOMENTS = (
    "2026-11-21T05:09:10.123456+00:00",
    "2026-07-01T23:59:59.999000+02:00",
    "2026-01-05T09:00:00+00:00",
    "2026-12-31T20:15:00.040000+00:00",
    "2026-03-29T01:00:00+00:00",
    "2026-10-25T00:30:00+00:00",
)
"""Times as a page holds them."""
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns")
