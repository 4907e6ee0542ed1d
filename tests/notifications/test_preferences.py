from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from wfdash.notifications.preferences import KINDS, Preferences, read_preferences


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NIGHT = Preferences(quiet=(time(22), time(7)), zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-07-01 19:59", "2026-07-01 19:59"),  # 21:59 in Berlin
        ("2026-07-01 20:00", "2026-07-02 05:00"),
        ("2026-07-02 04:59", "2026-07-02 05:00"),
        ("2026-07-02 05:00", "2026-07-02 05:00"),
        ("2026-10-24 23:30", "2026-10-25 06:00"),  # the night the clocks go back
    ],
)
def test_quiet_hours_are_those_of_the_person(now: str, due: str) -> None:
    assert NIGHT.due("reminder", "mail", at(now)) == at(due)
    assert NIGHT.is_quiet(at(now)) == (now != due)


def test_quiet_hours_may_lie_within_a_day() -> None:
    noon = Preferences(quiet=(time(12), time(13)))
    assert noon.due("asked", "apprise", at("2026-07-01 12:30")) == at("2026-07-01 13:00")
    assert noon.due("asked", "apprise", at("2026-07-01 23:30")) == at("2026-07-01 23:30")


def test_a_digest_holds_what_is_not_urgent() -> None:
    daily = Preferences(digest="daily", digest_at=time(8), zone="Europe/Berlin")
    assert daily.due("assigned", "mail", at("2026-07-01 06:30")) == at("2026-07-02 06:00")
    assert daily.due("assigned", "apprise", at("2026-07-01 06:30")) == at("2026-07-01 06:30")
    assert daily.due("escalated", "mail", at("2026-07-01 06:30")) == at("2026-07-01 06:30")


def test_a_digest_within_the_quiet_hours_comes_after_them() -> None:
    both = Preferences(digest="hourly", quiet=(time(22), time(7)))
    assert both.due("assigned", "mail", at("2026-07-01 22:30")) == at("2026-07-02 07:00")


def test_what_is_stored_is_read_back() -> None:
    wishes = Preferences(
        channels={"opened": frozenset({"mail"})}, zone="Asia/Tokyo", quiet=(time(22), time(7)), digest="daily"
    )
    assert read_preferences(wishes.stored()) == wishes
    assert read_preferences({}) == Preferences()


def test_what_is_unknown_counts_as_not_said() -> None:
    odd = read_preferences({"channels": {"gone": ["mail"], "opened": ["pigeon"]}, "zone": "Mars/Base", "digest": "x"})
    assert odd == Preferences(channels={"opened": frozenset()}, offered=frozenset({"browser", "mail", "apprise"}))


def test_everybody_is_told_in_the_browser_unless_they_say_no() -> None:
    assert all(Preferences().wants(kind, "browser") for kind in KINDS)
