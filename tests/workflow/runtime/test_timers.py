"""Timers: the soonest first, and those that have passed are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from wfdash.workflow.runtime.drive import Timers

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_soonest_timer_comes_first() -> None:
    timers = Timers()
    assert not timers
    for minutes in (5, 1, 3):
        timers.add(NOON + timedelta(minutes=minutes))
    assert timers
    assert timers[0] == NOON + timedelta(minutes=1)
    assert timers.seconds_left(NOON) == 60


def test_timers_that_have_passed_are_removed_and_said_once() -> None:
    timers = Timers()
    for minutes in (1, 3, 5):
        timers.add(NOON + timedelta(minutes=minutes))
    assert not timers.clear_passed(NOON)
    assert timers.clear_passed(NOON + timedelta(minutes=3))
    assert timers[0] == NOON + timedelta(minutes=5)
    assert not timers.clear_passed(NOON + timedelta(minutes=3))
