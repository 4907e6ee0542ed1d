"""Impatient people and dying workers: each command is done once, each signal received once and in order."""

from __future__ import annotations

import pytest

from tests.e2e.server import wait_until
from tests.faults.conftest import DATABASES
from tests.faults.worlds import World

pytestmark = pytest.mark.process
LETTERS = 12


@pytest.mark.parametrize("database", DATABASES)
def test_every_verb_that_comes_three_times_at_once_has_one_effect_and_one_result(any_world: World) -> None:
    told = any_world.play("concurrency.clickers.click")
    assert len(told) == 13
    for verb, outcome in told.items():
        assert len(outcome["results"]) == 1, (verb, outcome)
        assert " " not in outcome["results"][0], (verb, outcome)
        assert (outcome["events"], outcome["acts"]) == (1, 1), (verb, outcome)


@pytest.mark.parametrize("database", DATABASES)
def test_signals_are_received_once_and_in_order_although_workers_are_killed(any_world: World) -> None:
    tables = any_world.tables()
    run = any_world.play("start", workflow="post", number=LETTERS, ledger=str(any_world.ledger))
    sender = any_world.start_play("concurrency.clickers.post", run=run, count=LETTERS)

    def received() -> int:
        return len(tables.read("SELECT id FROM checkpoints_event WHERE run_id=? AND kind='signal.received'", run))

    worker = any_world.worker("0").start()
    try:
        for part in (1, 2):
            wait_until(lambda part=part: received() >= part * LETTERS // 3)
            worker.kill()
            worker = any_world.worker(str(part)).start()
        assert sender.wait() == 0
        wait_until(lambda: tables.run(run)["phase"] == "completed")
    finally:
        sender.kill()
        worker.kill()
    assert tables.run(run)["output"] == list(range(LETTERS))
    assert received() == LETTERS
