"""The removal of old runs is killed within its transactions and between them; nothing is torn, nothing is left."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.faults.crashes.removals import POINTS
from tests.faults.worlds import World

pytestmark = [pytest.mark.process, pytest.mark.nightly]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_removal_that_is_killed_tears_no_run_and_is_finished_by_the_next(
    make_world: Callable[[str], World], database: str
) -> None:
    found = make_world(database).play("crashes.removals.kill_at_each_point")
    assert len(found) == len(POINTS)
    assert [point for point in found if point["wrong"]] == []
    assert {(point["died"], point["went on"]) for point in found} == {(-signal.SIGKILL, 0)}
