"""Processes die at random instants while people start runs and answer: the short form of ``make faults``."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.faults.crashes.chaos import Report, kill_server, kill_workers
from tests.faults.crashes.removals import POINTS
from tests.faults.worlds import World

pytestmark = [pytest.mark.process, pytest.mark.nightly]


def check(report: Report, *, runs: int) -> None:
    seen = report.findings.seen
    assert report.findings.problems() == {}
    assert report.complaints == []
    assert seen["runs"] >= runs
    assert seen["recoveries"] > 0
    assert seen["answers"] > 0
    assert seen["once effects"] > 0


def test_nothing_is_lost_or_repeated_when_the_server_is_killed_again_and_again(world: World) -> None:
    check(kill_server(world, kills=10, seed=7, runs=12, wanted=8), runs=12)


def test_nothing_is_lost_or_repeated_when_workers_are_killed_beside_each_other(shared_world: World) -> None:
    report = kill_workers(shared_world, kills=6, seed=7, wanted=8, commits=100)
    check(report, runs=8)
    assert report.findings.seen["commits noted"] > 100


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_removal_that_is_killed_tears_no_run_and_is_finished_by_the_next(
    make_world: Callable[[str], World], database: str
) -> None:
    found = make_world(database).play("crashes.removals.kill_at_each_point")
    assert len(found) == len(POINTS)
    assert [point for point in found if point["wrong"]] == []
    assert {(point["died"], point["went on"]) for point in found} == {(-signal.SIGKILL, 0)}
