"""Several processes start what schedules missed, and some of them die: each time has one run, none is left out."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.e2e.server import wait_until
from tests.faults.conftest import DATABASES
from tests.faults.worlds import World

pytestmark = pytest.mark.process
SCHEDULES, MINUTES = 2, 60


@pytest.mark.parametrize("database", DATABASES)
def test_each_time_starts_one_run_whichever_process_sweeps_or_is_killed(any_world: World) -> None:
    schedules = any_world.play(
        "concurrency.sweepers.plan", schedules=SCHEDULES, minutes=MINUTES, ledger=str(any_world.ledger)
    )
    tables = any_world.tables()
    sweepers = [any_world.start_play("concurrency.sweepers.sweep") for _ in range(3)]
    try:
        for part, victim in enumerate(sweepers[:2], start=1):
            wait_until(lambda part=part: len(tables.runs()) >= part * SCHEDULES * MINUTES // 4)
            victim.kill()
        assert sweepers[2].wait() == 0
    finally:
        for sweeper in sweepers:
            sweeper.kill()
    dues: dict[str, list[datetime]] = {schedule: [] for schedule in schedules}
    for row in tables.read("SELECT data FROM checkpoints_event WHERE kind='run.queued'"):
        told = row["data"] if isinstance(row["data"], dict) else json.loads(row["data"])
        dues[told["schedule"]].append(datetime.fromisoformat(told["due"]))
    for found in dues.values():
        assert len(found) >= MINUTES
        assert {later - sooner for sooner, later in pairwise(sorted(found))} == {timedelta(minutes=1)}
    facts = tables.read("SELECT id FROM checkpoints_runfact WHERE name='schedule'")
    assert len(tables.runs()) == len(facts) == sum(map(len, dues.values()))
