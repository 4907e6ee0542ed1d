"""Workers whose clocks are wrong or jump, and workers that no one tells anything."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.e2e.server import wait_until
from tests.faults.checks import Promised, look
from tests.faults.clocks.clocks import HOUR, Clock
from tests.faults.graphs import NAP
from tests.faults.ledger import read_facts
from tests.faults.tables import Tables
from tests.faults.worlds import World

pytestmark = pytest.mark.process
LATE = 20.0
"""Seconds a sleeper may oversleep on a very busy machine; the clocks are wrong by hours."""
TOLD_LATE = 0.5
"""Seconds by which the event that a step began may come after it."""


def test_an_hour_of_error_in_workers_clocks_moves_no_timer_and_no_claim(shared_world: World) -> None:
    world, tables = shared_world, shared_world.tables()
    clocks = [Clock(world, str(shift), shift) for shift in (-HOUR, HOUR)]
    crew = [clock.worker.start() for clock in clocks]
    try:
        numbers = {"nap": [1, 2, 3, 4], "march": [30] * 4}
        naps = world.play("start_each", numbers=numbers, ledger=str(world.ledger))[:4]
        wait_until(lambda: read_facts(world.commits), what="a first commit")
        for clock in clocks:
            clock.jump()
        wait_until(lambda: tables.count() == 8, what="the end of every run")
    finally:
        for worker in crew:
            worker.kill()
    findings = look(tables, world.ledger, Promised(starts={}, answers={}), world.commits)
    assert findings.problems() == {}
    assert findings.seen["recoveries"] == 0
    for run in naps:
        # That a step began is told a little later, in company: measured from there, it wakes as much too early.
        assert timedelta(seconds=-TOLD_LATE) <= overslept(tables, run) < timedelta(seconds=LATE)


def overslept(tables: Tables, run: str) -> timedelta:
    """Return how much longer than wanted a ``nap`` took, by the database's clock."""
    begun, *_, woken = [e["at"] for e in tables.events(run) if e["kind"] in {"step.started", "step.finished"}][:2]
    return woken - begun - timedelta(seconds=NAP)


def test_runs_finish_when_every_hint_is_lost(world: World) -> None:
    numbers = {workflow: [1] for workflow in ("chain", "pay", "nested", "fan")}
    runs = world.play("start_each", numbers=numbers, ledger=str(world.ledger))
    assert world.play("drive_without_hints", runs=runs, ledger=str(world.ledger)) == ["completed"]
    assert look(world.tables(), world.ledger, Promised(starts={}, answers={})).problems() == {}
